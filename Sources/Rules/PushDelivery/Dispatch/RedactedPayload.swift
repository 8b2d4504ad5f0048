import JSON

/// Describes the body of a push request for the log, without the texts of people.
package enum RedactedPayload {
    private static let limit = 600

    /// Lists the keys, the numbers and the lengths of the texts in a JSON body; for any other body, returns only the
    /// body's length.
    package static func text(of body: [UInt8]) -> String {
        guard let value = try? JSONValue(body) else { return "\(body.count) bytes" }
        var out = ""
        append(value, to: &out)
        return out.utf8.count <= limit ? out : "\(out.prefix(limit))… (\(body.count) bytes)"
    }

    private static func append(_ value: JSONValue, to out: inout String) {
        guard out.utf8.count <= limit else { return }
        switch value {
        case .object(let members):
            out += "{"
            for (index, member) in members.enumerated() {
                out += (index > 0 ? "," : "") + "\(member.key):"
                append(member.value, to: &out)
            }
            out += "}"
        case .array(let elements):
            out += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { out += "," }
                append(element, to: &out)
            }
            out += "]"
        case .string(let text): out += "…(\(text.utf8.count))"
        case .number(let text): out += text
        case .bool(let flag): out += "\(flag)"
        case .null: out += "null"
        }
    }
}
