import Bytes

/// Finds `;name=value` parts in the bytes of a header field value, for edits that must leave all other bytes alone.
enum RawParameters {
    /// The next `;` outside of double quotes at or after `start`, or the end.
    static func end(_ span: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < span.count {
            switch span[index] {
            case UInt8(ascii: ";"): return index
            case UInt8(ascii: "\""): index = quoteEnd(span, from: index + 1)
            default: index += 1
            }
        }
        return span.count
    }

    /// The place after the closing quote; `start` stands after the opening one.
    static func quoteEnd(_ span: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < span.count {
            if span[index] == UInt8(ascii: "\\") {
                index += 2
            } else if span[index] == UInt8(ascii: "\"") {
                return index + 1
            } else {
                index += 1
            }
        }
        return span.count
    }

    /// Whether the parameter whose `;` stands at `semicolon` has that lower-case name.
    static func name(_ span: Span<UInt8>, _ semicolon: Int, equals lowercase: StaticString) -> Bool {
        let start = span.skipSpace(from: semicolon + 1, to: span.count)
        let end = start + lowercase.utf8CodeUnitCount
        guard end <= span.count else { return false }
        for index in start..<end where span[index].asciiLowercased != lowercase.byte(at: index - start) { return false }
        guard end < span.count else { return true }
        switch span[end] {
        case UInt8(ascii: "="), UInt8(ascii: ";"), UInt8(ascii: ","), UInt8(ascii: ">"), UInt8(ascii: "?"): return true
        default: return span[end].isLinearSpace
        }
    }

    /// Whether any parameter of the value passes `test`, which gets the place of its `;`.
    static func contains(_ span: Span<UInt8>, _ test: (Span<UInt8>, Int) -> Bool) -> Bool {
        var index = end(span, from: 0)
        while index < span.count {
            if test(span, index) { return true }
            index = end(span, from: index + 1)
        }
        return false
    }
}

extension UInt8 {
    /// Space, tab, or part of a fold.
    @inlinable package var isLinearSpace: Bool {
        self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") || self == UInt8(ascii: "\r")
            || self == UInt8(ascii: "\n")
    }
}

extension Span<UInt8> {
    /// The first place at or after `start` without white space, or `end`.
    @inlinable
    package func skipSpace(from start: Int, to end: Int) -> Int {
        var index = start
        while index < end, self[index].isLinearSpace { index += 1 }
        return index
    }

    /// `range` without white space and folds at both ends.
    @inlinable
    package func trimmed(_ range: Range<Int>) -> Range<Int> {
        let start = skipSpace(from: range.lowerBound, to: range.upperBound)
        var end = range.upperBound
        while start < end, self[end - 1].isLinearSpace { end -= 1 }
        return start..<end
    }
}
