package import Bytes

extension ByteString {
    /// The text without control characters and marks of the reading direction (U+061C, U+200E, U+200F, U+2028 to
    /// U+202E, U+2066 to U+2069). The text is a caller's name, which then looks the same on every phone.
    package func withoutHiddenMarks() -> ByteString {
        guard !withSpan({ $0.isVisibleASCII }) else { return self }
        var out: [UInt8] = []
        out.reserveCapacity(count)
        for byte in array {
            if byte < 0x20 || byte == 0x7f { continue }
            out.append(byte)
            // The end of the output is checked after each byte, because the bytes around a removed mark can together
            // form another mark.
            out.removeLast(out.span.hiddenMarkAtEnd)
        }
        return out.count == count ? self : ByteString(copying: out.span)
    }
}

extension Span<UInt8> {
    fileprivate var isVisibleASCII: Bool {
        firstPlace(in: 0..<count) { ($0 &- SIMD16(repeating: 0x20)) .> SIMD16(repeating: 0x5e) } == count
    }

    /// The length in bytes of the hidden character at the end of the UTF-8 text; 0 for a visible character.
    fileprivate var hiddenMarkAtEnd: Int {
        guard count >= 2 else { return 0 }
        let (before, last) = (self[count - 2], self[count - 1])
        if before == 0xc2, (0x80...0x9f).contains(last) { return 2 }
        if before == 0xd8, last == 0x9c { return 2 }
        guard count >= 3, self[count - 3] == 0xe2 else { return 0 }
        switch (before, last) {
        case (0x80, 0x8e...0x8f), (0x80, 0xa8...0xae), (0x81, 0xa6...0xa9): return 3
        default: return 0
        }
    }
}
