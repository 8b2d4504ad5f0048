/// Base 64 with the alphabet for URLs and without padding (RFC 4648 section 5): every character is a token of SIP.
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    package static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var count = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> UInt32(count) & 63)])
            }
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(6 - count) & 63)]) }
        return text
    }

    /// - Returns: `nil` for anything but what ``encode(_:)`` writes.
    package static func decode(_ text: ByteString) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        return text.withSpan { text in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(text.count * 3 / 4)
            var bits: UInt32 = 0
            var count = 0
            for index in 0..<text.count {
                guard let value = value(of: text[index]) else { return nil }
                bits = bits << 6 | value
                count += 6
                if count >= 8 {
                    count -= 8
                    bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
                }
            }
            return bits & (1 << UInt32(count) - 1) == 0 ? bytes : nil
        }
    }

    private static func value(of letter: UInt8) -> UInt32? {
        switch letter {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(letter - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(letter - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(letter - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
