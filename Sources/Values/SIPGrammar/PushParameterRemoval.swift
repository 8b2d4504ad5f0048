package import Bytes

// The functions of `PushParameterRemoval` remove the push parameters `pn-*` (RFC 8599) from URIs and Contact values.
// Anybody who knows `pn-*` parameters could send pushes to the device.

extension ByteString {
    /// The URI or Contact value without parameters whose names begin with `pn-`, inside and outside the angle brackets.
    /// Bytes outside `pn-*` parameters stay unchanged, and a value without such parameters is not copied.
    ///
    /// The parameter `pn-purr` stays, because it is intended for peers (RFC 8599 section 9.3).
    package func withoutPushParameters() -> ByteString {
        let hasAny = withSpan { span in
            var search = PushParameterSearch()
            return search.next(span) != nil
        }
        guard hasAny else { return self }
        return ByteString([UInt8](capacity: count) { $0.append(withoutPushParameters: self) })
    }
}

extension ByteSink {
    /// Appends the value without its `pn-*` parameters.
    mutating func append(withoutPushParameters value: ByteString) {
        value.withSpan { span in
            var search = PushParameterSearch()
            var from = 0
            while let found = search.next(span) {
                append(value, from..<found.lowerBound)
                from = found.upperBound
            }
            append(value, from..<span.count)
        }
    }
}

/// Finds the `pn-*` parameters of a value, one after the other.
struct PushParameterSearch {
    private enum Place { case beforeBrackets, inBrackets, behindBrackets }

    private var position = 0
    private var place = Place.beforeBrackets
    /// The index of the URI's host. A semicolon before the host belongs to the user part (RFC 4475 section 3.1.1.9).
    private var hostStart: Int?

    /// The range of the next push parameter outside quotes, from its `;` to the delimiter after the parameter.
    mutating func next(_ span: Span<UInt8>) -> Range<Int>? {
        if hostStart == nil { hostStart = Self.hostStart(span, from: 0) }
        while true {
            position = Self.nextMark(span, from: position)
            guard position < span.count else { return nil }
            switch span[position] {
            case UInt8(ascii: ";"):
                let start = position
                position += 1
                if start >= hostStart ?? 0, Self.beginsPush(span, from: position),
                    !RawParameters.name(span, start, equals: "pn-purr")
                {
                    position = end(span, from: position)
                    return start..<position
                }
            case UInt8(ascii: "\"") where place != .inBrackets:
                position = span.quoteEnd(from: position + 1, to: span.count) ?? span.count
            case UInt8(ascii: "<") where place == .beforeBrackets:
                place = .inBrackets
                position += 1
                hostStart = Self.hostStart(span, from: position)
            case UInt8(ascii: ">"):
                place = .behindBrackets
                position += 1
            default: position += 1
            }
        }
    }

    private static func nextMark(_ span: Span<UInt8>, from start: Int) -> Int {
        return span.firstPlace(in: start..<span.count) { block in
            block.marks(of: ";") .| block.marks(of: "\"")
                .| block.marks(of: "<") .| block.marks(of: ">")
        }
    }

    /// The index after the parameter at `start`. A comma does not end a parameter, because lists were already split at
    /// their commas.
    private func end(_ span: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < span.count {
            switch span[index] {
            case UInt8(ascii: ";"): return index
            case UInt8(ascii: ">"), UInt8(ascii: "?"):
                if place != .behindBrackets { return index }
                index += 1
            case UInt8(ascii: "\"") where place != .inBrackets:
                index = span.quoteEnd(from: index + 1, to: span.count) ?? span.count
            default: index += 1
            }
        }
        return span.count
    }

    /// Whether a name with the prefix `pn-` begins at `start`, in upper or lower case, also percent-encoded as in
    /// `%70n-prid`.
    private static func beginsPush(_ span: Span<UInt8>, from start: Int) -> Bool {
        let prefix: StaticString = "pn-"
        var index = span.skipSpace(from: start, to: span.count)
        for place in 0..<prefix.utf8CodeUnitCount {
            guard index < span.count else { return false }
            var byte = span[index]
            index += 1
            if byte == UInt8(ascii: "%"), index + 1 < span.count, let high = span[index].hexValue,
                let low = span[index + 1].hexValue
            {
                byte = high << 4 | low
                index += 2
            }
            guard byte.asciiLowercased == prefix.byte(at: place) else { return false }
        }
        return true
    }

    /// The index of the `@` in the URI that begins at or after `start`; without an `@`, `start`.
    private static func hostStart(_ span: Span<UInt8>, from start: Int) -> Int {
        let place = span.firstPlace(in: start..<span.count) { block in
            block.marks(of: "@") .| block.marks(of: "\"")
                .| block.marks(of: "<") .| block.marks(of: ">")
        }
        return place < span.count && span[place] == UInt8(ascii: "@") ? place : start
    }
}
