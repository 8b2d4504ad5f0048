import JSON

/// JSON text being put together, on one line.
struct JSONText: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    private(set) var bytes: [UInt8] = []

    init(_ text: String) { bytes.append(jsonString: text) }
    init(_ number: Int64) { bytes = Array("\(number)".utf8) }
    init(stringLiteral text: String) { self.init(text) }
    init(integerLiteral number: Int64) { self.init(number) }

    static func object(_ members: [(String, JSONText)]) -> JSONText {
        joined(members.map { JSONText($0).bytes + [UInt8(ascii: ":")] + $1.bytes }, "{", "}")
    }

    static func array(_ elements: [JSONText]) -> JSONText { joined(elements.map(\.bytes), "[", "]") }

    /// A value as it was read, without the white space between its parts.
    init(_ value: JSONValue) {
        let text: JSONText =
            switch value {
            case .null: JSONText(bytes: Array("null".utf8))
            case .bool(let flag): JSONText(bytes: Array(flag ? "true".utf8 : "false".utf8))
            case .number(let text): JSONText(bytes: Array(text.utf8))
            case .string(let text): JSONText(text)
            case .array(let elements): .array(elements.map { JSONText($0) })
            case .object(let members): .object(members.map { ($0.key, JSONText($0.value)) })
            }
        bytes = text.bytes
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private static func joined(_ parts: [[UInt8]], _ start: Unicode.Scalar, _ end: Unicode.Scalar) -> JSONText {
        JSONText(
            bytes: [UInt8(ascii: start)] + parts.joined(separator: [UInt8(ascii: ",")]) + [UInt8(ascii: end)])
    }
}

extension JSONValue {
    /// `nil` for bytes that are no JSON object.
    static func object(in bytes: [UInt8]) -> JSONValue? {
        guard let value = try? JSONValue(bytes), value.members != nil else { return nil }
        return value
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}
