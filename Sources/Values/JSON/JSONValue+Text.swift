extension JSONValue: ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    package init(stringLiteral text: String) { self = .string(text) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral members: (String, JSONValue)...) { self = .members(members) }

    /// A JSON object with the given members, in their order.
    package static func members(_ members: [(String, JSONValue)]) -> JSONValue {
        .object(members.map { Member(key: $0.0, value: $0.1) })
    }

    package static func number(_ number: Int64) -> JSONValue { .number("\(number)") }

    /// The value as text without blanks; a number keeps its digits.
    package var bytes: [UInt8] {
        var out: [UInt8] = []
        append(to: &out)
        return out
    }

    /// The value as text for people, with each member and element on its own line.
    package var lines: [UInt8] {
        var out: [UInt8] = []
        append(to: &out, depth: 0)
        return out
    }

    /// Appends the value as text. If `depth` is given, each member and element gets its own line. The function recurses
    /// for nested values; the JSON reader limits the nesting.
    package func append(to out: inout [UInt8], depth: Int? = nil) {
        switch self {
        case .null: out += "null".utf8
        case .bool(let flag): out += (flag ? "true" : "false").utf8
        case .number(let text): out += text.utf8
        case .string(let text): out.append(jsonString: text)
        case .array(let elements):
            out.append("[", elements, "]", depth) { $0.append(to: &$1, depth: $2) }
        case .object(let members):
            out.append("{", members, "}", depth) { member, out, depth in
                out.append(jsonString: member.key)
                out += (depth == nil ? ":" : ": ").utf8
                member.value.append(to: &out, depth: depth)
            }
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append<Part>(
        _ open: String, _ parts: [Part], _ close: String, _ depth: Int?, _ append: (Part, inout [UInt8], Int?) -> Void
    ) {
        let inner = depth.map { $0 + 1 }
        self += open.utf8
        for (index, part) in parts.enumerated() {
            if index > 0 { self += ",".utf8 }
            endLine(inner)
            append(part, &self, inner)
        }
        if !parts.isEmpty { endLine(depth) }
        self += close.utf8
    }

    private mutating func endLine(_ depth: Int?) {
        guard let depth else { return }
        self += ("\n" + String(repeating: "  ", count: depth)).utf8
    }
}

extension JSONValue.Member {
    package init(_ key: String, _ value: JSONValue) { self.init(key: key, value: value) }
}
