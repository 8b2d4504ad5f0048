package import Bytes

// Finds the realm of digest credentials (RFC 3261 section 22.3).

extension MessageFrame {
    /// Whether digest credentials name one of the given realms, which must be in lower case.
    ///
    /// Credentials with two realms match if one of the realms matches. In unclear cases, the result is true, and the
    /// proxy removes the field. Forwarding the field could disclose a user's digest response.
    package func credentials(_ field: HeaderField, areFor realms: [ByteString]) -> Bool {
        bytes[field.value].withSpan { span in
            var index = 0
            while index < span.count {
                if span[index] == UInt8(ascii: "\"") {
                    index = span.quoteEnd(from: index + 1, to: span.count) ?? span.count
                    continue
                }
                guard let (value, end) = Self.realmValue(span, at: index) else {
                    index += 1
                    continue
                }
                if realms.contains(where: { Self.isSame(span, value, $0) }) { return true }
                index = end
            }
            return false
        }
    }

    /// Reads the parameter `realm`, which begins at `start`. The function returns the value's range without quotes, and
    /// the index after the parameter. If a quote is not closed, the value ends at the end of the field.
    private static func realmValue(_ span: Span<UInt8>, at start: Int) -> (value: Range<Int>, end: Int)? {
        let name: StaticString = "realm"
        var index = start + name.utf8CodeUnitCount
        guard index < span.count, start == 0 || isSeparator(span[start - 1]) else { return nil }
        for (offset, letter) in "realm".utf8.enumerated() where span[start + offset].asciiLowercased != letter {
            return nil
        }
        while index < span.count, isBlank(span[index]) { index += 1 }
        guard index < span.count, span[index] == UInt8(ascii: "=") else { return nil }
        index += 1
        while index < span.count, isBlank(span[index]) { index += 1 }
        guard index < span.count else { return nil }
        if span[index] == UInt8(ascii: "\"") {
            let end = span.quoteEnd(from: index + 1, to: span.count) ?? span.count
            let isClosed = end > index + 1 && span[end - 1] == UInt8(ascii: "\"")
            return (index + 1..<max(index + 1, isClosed ? end - 1 : end), end)
        }
        var end = index
        while end < span.count, !isSeparator(span[end]) { end += 1 }
        return (index..<end, end)
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte <= UInt8(ascii: " ") }

    private static func isSeparator(_ byte: UInt8) -> Bool { isBlank(byte) || byte == UInt8(ascii: ",") }

    /// Whether the value without its escapes equals the realm, in upper or lower case.
    private static func isSame(_ span: Span<UInt8>, _ value: Range<Int>, _ realm: ByteString) -> Bool {
        var index = value.lowerBound
        var place = 0
        while index < value.upperBound {
            if span[index] == UInt8(ascii: "\\"), index + 1 < value.upperBound { index += 1 }
            guard place < realm.count, span[index].asciiLowercased == realm[place].asciiLowercased else { return false }
            index += 1
            place += 1
        }
        return place == realm.count
    }
}
