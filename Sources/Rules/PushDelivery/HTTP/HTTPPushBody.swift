import Bytes
import JSON
import Settings

/// The JSON body of requests to the operator's own push server, from the settings. Strings in the JSON body can contain
/// fields such as `{{token}}`.
///
/// The JSON body is stored as a tree and not as text, so that the value of a field cannot end its string. A string that
/// is only `{{date}}`, `{{sent}}`, `{{badge}}` or `{{ttl}}` becomes a number, `{{calls}}` becomes an array, and
/// `{{custom}}` an object.
package struct HTTPPushBody: Hashable, Sendable {
    private indirect enum Node: Hashable, Sendable {
        /// A part of the JSON text that contains no fields.
        case fixed([UInt8])
        case text(HTTPPushTemplate)
        case array([Node])
        case object([Member])
    }

    private struct Member: Hashable, Sendable {
        let key: String
        let value: Node
    }

    let source: String
    private let root: Node

    init(_ source: String) throws(SettingComplaint) {
        self.source = source
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(Array(source.utf8))
        } catch {
            throw SettingComplaint("expected JSON: \(error)")
        }
        root = try Self.node(value)
    }

    private static func node(_ value: JSONValue) throws(SettingComplaint) -> Node {
        switch value {
        case .null: return .fixed(Array("null".utf8))
        case .bool(let flag): return .fixed(Array("\(flag)".utf8))
        case .number(let text): return .fixed(Array(text.utf8))
        case .string(let text): return .text(try HTTPPushTemplate(text))
        case .array(let elements):
            var nodes: [Node] = []
            for element in elements { nodes.append(try node(element)) }
            return .array(nodes)
        case .object(let members):
            var nodes: [Member] = []
            for member in members {
                guard !member.key.contains("{{") else { throw SettingComplaint("expected no fields in keys") }
                nodes.append(Member(key: member.key, value: try node(member.value)))
            }
            return .object(nodes)
        }
    }

    /// All fields, such as `{{token}}`, that the template's body contains.
    var fields: [HTTPPushField] { Self.fields(of: root) }

    private static func fields(of node: Node) -> [HTTPPushField] {
        switch node {
        case .fixed: []
        case .text(let template): template.fields
        case .array(let nodes): nodes.flatMap(fields)
        case .object(let members): members.flatMap { fields(of: $0.value) }
        }
    }

    func render(_ values: HTTPPushValues) -> [UInt8] {
        var out: [UInt8] = []
        Self.append(root, values, to: &out)
        return out
    }

    private static func append(_ node: Node, _ values: HTTPPushValues, to out: inout [UInt8]) {
        switch node {
        case .fixed(let json): out.append(contentsOf: json)
        case .text(let template):
            if let field = template.onlyField, let number = values.number(field) {
                out.append(decimal: number)
            } else if template.onlyField == .calls {
                out.append(contentsOf: values.calls)
            } else if template.onlyField == .custom {
                out.append(contentsOf: values.custom)
            } else {
                out.append(jsonString: template.render(values) { text, _, out in out.append(text) }.span)
            }
        case .array(let nodes):
            out.append("[")
            for (index, node) in nodes.enumerated() {
                if index > 0 { out.append(",") }
                append(node, values, to: &out)
            }
            out.append("]")
        case .object(let members):
            out.append("{")
            for (index, member) in members.enumerated() {
                if index > 0 { out.append(",") }
                out.append(jsonString: member.key)
                out.append(":")
                append(member.value, values, to: &out)
            }
            out.append("}")
        }
    }
}
