/// Base64 (RFC 4648), either with the standard alphabet and padding, or with the URL alphabet and no padding, as in
/// JSON web tokens.
package enum Base64: Sendable {
    case standard, url

    package func encode(_ bytes: Span<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        encode(bytes, into: &text)
        return text
    }

    /// Appends the Base64 text of the bytes.
    package func encode(_ bytes: Span<UInt8>, into text: inout [UInt8]) {
        // With a capacity of 0, `append` would write into the empty array that all threads share.
        guard !bytes.isEmpty else { return }
        text.append(addingCapacity: (bytes.count + 2) / 3 * 4) { encode(bytes, into: &$0) }
    }

    /// Appends the Base64 text of the bytes. The output span must have room for all characters.
    package func encode(_ bytes: Span<UInt8>, into text: inout OutputSpan<UInt8>) {
        var index = 0
        while index < bytes.count - 2 {
            let (first, second, third) = (bytes[index], bytes[index + 1], bytes[index + 2])
            text.append(character(first >> 2))
            text.append(character((first & 3) << 4 | second >> 4))
            text.append(character((second & 15) << 2 | third >> 6))
            text.append(character(third & 63))
            index += 3
        }
        guard index < bytes.count else { return }
        let (first, second) = (bytes[index], index + 1 < bytes.count ? bytes[index + 1] : 0)
        text.append(character(first >> 2))
        text.append(character((first & 3) << 4 | second >> 4))
        if index + 1 < bytes.count { text.append(character((second & 15) << 2)) } else { pad(&text) }
        pad(&text)
    }

    package func encode(_ bytes: [UInt8]) -> [UInt8] { encode(bytes.span) }

    /// Decodes a Base64 text; `nil` unless ``encode(_:)`` would produce exactly this text.
    package func decode(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        return decode(text, into: &bytes) ? bytes : nil
    }

    /// Decodes a Base64 text, and appends its bytes.
    ///
    /// - Returns: whether ``encode(_:)`` would produce exactly this text; if not, the appended bytes are meaningless.
    package func decode(_ text: Span<UInt8>, into bytes: inout [UInt8]) -> Bool {
        var count = text.count
        if self == .standard {
            guard count % 4 == 0 else { return false }
            for _ in 0..<2 where count > 0 && text[count - 1] == UInt8(ascii: "=") { count -= 1 }
        }
        guard count % 4 != 1 else { return false }
        guard count > 0 else { return true }
        let values = self == .standard ? Self.standardValues : Self.urlValues
        var isText = true
        bytes.append(addingCapacity: (count + 3) / 4 * 3) { bytes in
            var (index, seen) = (0, UInt8(0))
            // Each group of four characters gives three bytes.
            while index + 4 <= count {
                let (first, second) = (values[Int(text[index])], values[Int(text[index + 1])])
                let (third, fourth) = (values[Int(text[index + 2])], values[Int(text[index + 3])])
                seen |= first | second | third | fourth
                bytes.append(first << 2 | second >> 4)
                bytes.append(second << 4 | third >> 2)
                bytes.append(third << 6 | fourth)
                index += 4
            }
            if index < count {
                let (first, second) = (values[Int(text[index])], values[Int(text[index + 1])])
                let third = index + 2 < count ? values[Int(text[index + 2])] : 0
                seen |= first | second | third
                bytes.append(first << 2 | second >> 4)
                if index + 2 < count { bytes.append(second << 4 | third >> 2) }
                // The unused bits of the last character must be zero, because two different texts could otherwise give
                // the same bytes.
                isText = (index + 2 < count ? third << 6 : second << 4) == 0
            }
            isText = isText && seen < Self.none
        }
        return isText
    }

    package func decode(_ text: [UInt8]) -> [UInt8]? { decode(text.span) }

    private func pad(_ text: inout OutputSpan<UInt8>) {
        if self == .standard { text.append(UInt8(ascii: "=")) }
    }

    private func character(_ value: UInt8) -> UInt8 {
        if value < 26 { return UInt8(ascii: "A") &+ value }
        if value < 52 { return UInt8(ascii: "a") &+ value &- 26 }
        if value < 62 { return UInt8(ascii: "0") &+ value &- 52 }
        if value == 62 { return self == .url ? UInt8(ascii: "-") : UInt8(ascii: "+") }
        return self == .url ? UInt8(ascii: "_") : UInt8(ascii: "/")
    }

    /// The six bits for which a character stands; `nil` for other characters.
    package func value(of character: UInt8) -> UInt8? {
        let value = (self == .standard ? Self.standardValues : Self.urlValues)[Int(character)]
        return value < Self.none ? value : nil
    }

    /// The decoding table's value for a byte outside the alphabet.
    private static let none: UInt8 = 64
    /// The six-bit value of each byte; 64 for bytes outside the alphabet.
    private static let standardValues = values(of: .standard)
    private static let urlValues = values(of: .url)

    private static func values(of alphabet: Base64) -> [UInt8] {
        var values = [UInt8](repeating: none, count: 256)
        for value in 0..<none { values[Int(alphabet.character(value))] = value }
        return values
    }
}
