import Bytes
package import HTTPSemantics

/// Reads names and values from queries and HTML forms (`application/x-www-form-urlencoded`).
package enum FormText {
    /// Decodes the items of a query or form, in their order. A `+` in a query or form is decoded as a space. A form
    /// item without `=` has an empty value.
    package static func items(_ text: ArraySlice<UInt8>) -> [HTTPField] {
        text.split(separator: UInt8(ascii: "&")).map { item in
            let end = item.firstIndex(of: UInt8(ascii: "=")) ?? item.endIndex
            return HTTPField(
                decoded(item[..<end], plusIsSpace: true), decoded(item[end...].dropFirst(), plusIsSpace: true))
        }
    }

    /// Decodes percent encoding; a `%` stays unchanged unless two hexadecimal digits follow it.
    package static func decoded(_ text: ArraySlice<UInt8>, plusIsSpace: Bool = false) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var index = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            if byte == UInt8(ascii: "%"), index + 2 < text.endIndex, let high = text[index + 1].hexValue,
                let low = text[index + 2].hexValue
            {
                bytes.append(high << 4 | low)
                index += 3
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
                index += 1
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
