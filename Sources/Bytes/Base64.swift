/// Base64 (RFC 4648): the standard alphabet with padding, or the URL alphabet without, as JSON web tokens use it.
package enum Base64: Sendable {
    case standard, url

    package func encode(_ bytes: Span<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        encode(bytes, into: &text)
        return text
    }

    /// Appends the text of the bytes.
    package func encode(_ bytes: Span<UInt8>, into text: inout [UInt8]) {
        var index = 0
        while index < bytes.count {
            let rest = bytes.count - index
            let second = rest > 1 ? bytes[index + 1] : 0
            let third = rest > 2 ? bytes[index + 2] : 0
            text.append(character(bytes[index] >> 2))
            text.append(character((bytes[index] & 3) << 4 | second >> 4))
            if rest > 1 { text.append(character((second & 15) << 2 | third >> 6)) } else { pad(&text) }
            if rest > 2 { text.append(character(third & 63)) } else { pad(&text) }
            index += 3
        }
    }

    package func encode(_ bytes: [UInt8]) -> [UInt8] { encode(bytes.span) }

    /// The bytes, or `nil` for anything but the one text that ``encode(_:)`` gives them.
    package func decode(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        return decode(text, into: &bytes) ? bytes : nil
    }

    /// Appends the bytes of a text.
    ///
    /// - Returns: whether the text is one that ``encode(_:)`` gives. If not, what was appended means nothing.
    package func decode(_ text: Span<UInt8>, into bytes: inout [UInt8]) -> Bool {
        var count = text.count
        if self == .standard {
            guard count % 4 == 0 else { return false }
            for _ in 0..<2 where count > 0 && text[count - 1] == UInt8(ascii: "=") { count -= 1 }
        }
        guard count % 4 != 1 else { return false }
        var bits: UInt32 = 0
        var index = 0
        while index < count {
            guard let value = value(of: text[index]) else { return false }
            bits = bits << 6 | UInt32(value)
            index += 1
            // Four characters are three bytes.
            if index % 4 == 0 { bytes.append(big: UInt64(bits & 0xff_ffff), count: 3) }
        }
        // Bits that belong to no byte must be zero, or two texts would mean the same bytes.
        switch count % 4 {
        case 2:
            bytes.append(UInt8(truncatingIfNeeded: bits >> 4))
            return bits & 15 == 0
        case 3:
            bytes.append(big: UInt64(bits >> 2 & 0xffff), count: 2)
            return bits & 3 == 0
        default: return true
        }
    }

    package func decode(_ text: [UInt8]) -> [UInt8]? { decode(text.span) }

    private func pad(_ text: inout [UInt8]) {
        if self == .standard { text.append(UInt8(ascii: "=")) }
    }

    private func character(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + value - 26
        case 52..<62: UInt8(ascii: "0") + value - 52
        case 62: self == .url ? UInt8(ascii: "-") : UInt8(ascii: "+")
        default: self == .url ? UInt8(ascii: "_") : UInt8(ascii: "/")
        }
    }

    /// The six bits that a character stands for; `nil` for one that is not in the alphabet.
    package func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+") where self == .standard, UInt8(ascii: "-") where self == .url: 62
        case UInt8(ascii: "/") where self == .standard, UInt8(ascii: "_") where self == .url: 63
        default: nil
        }
    }
}
