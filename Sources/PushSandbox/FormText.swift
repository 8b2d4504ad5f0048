/// `a=b&c=d`, as queries and the bodies of HTML forms are written.
enum FormText {
    /// Decoded; of repeated names the first counts.
    static func values(_ text: some StringProtocol) -> [String: String] {
        let pairs = text.split(separator: "&").prefix(32).compactMap { pair -> (String, String)? in
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = sides.first, let value = sides.last, sides.count == 2 else { return nil }
            return (decoded(name, plusIsSpace: true), decoded(value, plusIsSpace: true))
        }
        return Dictionary(pairs, uniquingKeysWith: { first, _ in first })
    }

    /// A `%` that no two hex digits follow stays as it is.
    static func decoded(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "+"), plusIsSpace {
                bytes.append(UInt8(ascii: " "))
            } else if byte == UInt8(ascii: "%"), let value = hexByte(rest.prefix(2)) {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func hexByte(_ digits: ArraySlice<UInt8>) -> UInt8? {
        let text = String(decoding: digits, as: UTF8.self)
        guard digits.count == 2, text.allSatisfy(\.isHexDigit) else { return nil }
        return UInt8(text, radix: 16)
    }
}
