/// Converts bytes to hexadecimal digits in lower case, and back (RFC 4648 section 8).
package enum Hex {
    package static func encode(_ bytes: Span<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        for index in bytes.indices { text.append(hex: bytes[index]) }
        return text
    }

    package static func encode(_ bytes: [UInt8]) -> [UInt8] { encode(bytes.span) }

    /// Decodes hexadecimal digits.
    ///
    /// - Returns: the bytes; `nil` for an odd number of digits, or for characters that ``encode(_:)-([UInt8])`` does
    ///   not write.
    package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let high = text[index].hexValue, let low = text[index + 1].hexValue,
                text[index] == text[index].asciiLowercased, text[index + 1] == text[index + 1].asciiLowercased
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    package static func decode(_ text: [UInt8]) -> [UInt8]? { decode(text.span) }

    package static func decode(_ text: ByteString) -> [UInt8]? { text.withSpan { decode($0) } }
}

extension Array<UInt8> {
    /// Appends the two hexadecimal digits of a byte.
    package mutating func append(hex byte: UInt8) {
        append((byte >> 4).hexDigit)
        append((byte & 15).hexDigit)
    }

    /// Appends the percent encoding of a byte, with upper-case digits.
    package mutating func append(percentEncoded byte: UInt8) {
        append(UInt8(ascii: "%"))
        append((byte >> 4).upperHexDigit)
        append((byte & 15).upperHexDigit)
    }

    /// Appends the lowest `count` bytes of an integer, highest byte first (network byte order).
    package mutating func append(big number: UInt64, count: Int = 8) {
        let bytes: [8 of UInt8] = .init { place in UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * place)) }
        append(bytes.span.extracting((8 - count)...))
    }
}

extension UInt64 {
    /// The sixteen hexadecimal digits of the number.
    package var hexDigits: [16 of UInt8] {
        var digits: [16 of UInt8] = .init(repeating: 0)
        for place in 0..<16 {
            digits[place] = (UInt8(truncatingIfNeeded: self >> UInt64(60 - 4 * place)) & 15).hexDigit
        }
        return digits
    }
}

extension UInt8 {
    fileprivate var hexDigit: UInt8 { self < 10 ? UInt8(ascii: "0") + self : UInt8(ascii: "a") + self - 10 }
    fileprivate var upperHexDigit: UInt8 { self < 10 ? hexDigit : hexDigit & ~0x20 }
}
