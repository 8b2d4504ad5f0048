/// Names and values as queries and HTML forms write them: `name=value&...` (`application/x-www-form-urlencoded`).
package enum FormText {
    /// In their order; a `+` is a space, and an item without `=` has an empty value.
    package static func items(_ text: some Collection<UInt8>) -> [HTTPField] {
        text.split(separator: UInt8(ascii: "&")).map { item in
            let sides = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            return HTTPField(
                decoded(sides[0], plusIsSpace: true), sides.count == 2 ? decoded(sides[1], plusIsSpace: true) : "")
        }
    }

    /// A `%` that no two hex digits follow stays as it is.
    static func decoded(_ text: some Collection<UInt8>, plusIsSpace: Bool = false) -> String {
        var bytes: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let high = rest.first.flatMap(hexValue),
                let low = rest.dropFirst().first.flatMap(hexValue)
            {
                bytes.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
