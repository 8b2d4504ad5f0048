internal import SIPGrammar

extension Array<UInt8> {
    /// Appends the value as JSON text without blanks: numbers as they were written, strings escaped anew.
    ///
    /// Recursive, but no deeper than the reader that made the value allowed.
    package mutating func append(json value: JSONValue) {
        switch value {
        case .null: append("null")
        case .bool(let flag): append(contentsOf: "\(flag)".utf8)
        case .number(let text): append(contentsOf: text.utf8)
        case .string(let text): append(jsonString: text)
        case .array(let elements):
            append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { append(UInt8(ascii: ",")) }
                append(json: element)
            }
            append(UInt8(ascii: "]"))
        case .object(let members):
            append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { append(UInt8(ascii: ",")) }
                append(jsonString: member.key)
                append(UInt8(ascii: ":"))
                append(json: member.value)
            }
            append(UInt8(ascii: "}"))
        }
    }
}
