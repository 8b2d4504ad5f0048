import Bytes

/// Finds parameters (`;name=value`) in a header field value, for edits that keep all other bytes.
enum RawParameters {
    /// The index of the next `;` outside quotes from `start` on, or the end of the bytes.
    static func end(_ span: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while true {
            index = span.firstPlace(of: UInt8(ascii: ";"), or: UInt8(ascii: "\""), in: index..<span.count)
            guard index < span.count, span[index] != UInt8(ascii: ";") else { return index }
            index = span.quoteEnd(from: index + 1, to: span.count) ?? span.count
        }
    }

    /// Whether the parameter after the `;` at `semicolon` has the given lower-case name.
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

    /// Whether `test` returns true for one of the parameters; `test` gets the index of the parameter's `;`.
    static func contains(_ span: Span<UInt8>, _ test: (Span<UInt8>, Int) -> Bool) -> Bool {
        var index = end(span, from: 0)
        while index < span.count {
            if test(span, index) { return true }
            index = end(span, from: index + 1)
        }
        return false
    }
}
