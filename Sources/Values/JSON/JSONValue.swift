/// A whole JSON text as a Swift value; for large or frequent texts, ``JSONReader`` is faster.
package enum JSONValue: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        package let key: String
        package let value: JSONValue
    }

    case null
    case bool(Bool)
    /// A number as text, because JSON limits neither its size nor its precision.
    case number(String)
    case string(String)
    case array([JSONValue])
    /// The members of an object, in the order of the text and with different names.
    case object([Member])

    package init(_ bytes: [UInt8], limits: JSONReader.Limits = JSONReader.Limits()) throws(JSONError) {
        var reader = try JSONReader(bytes, limits: limits)
        self = try Self.read(try reader.next(), from: &reader)
        // The reader throws if more text follows after the value.
        _ = try reader.next()
    }

    /// Reads the value whose first token is `token`, and recurses up to the reader's limit of depth.
    private static func read(_ token: JSONReader.Token, from reader: inout JSONReader) throws(JSONError) -> JSONValue {
        switch token {
        case .objectStart:
            var members: [Member] = []
            while case .key(let text) = try reader.next() {
                let key = reader.string(text)
                members.append(Member(key: key, value: try read(try reader.next(), from: &reader)))
            }
            return .object(members)
        case .arrayStart:
            var elements: [JSONValue] = []
            while case let token = try reader.next(), token != .arrayEnd {
                elements.append(try read(token, from: &reader))
            }
            return .array(elements)
        case .string(let text): return .string(reader.string(text))
        case .number(let range): return .number(reader.number(range))
        case .bool(let flag): return .bool(flag)
        // The remaining tokens cannot occur at the start of a value.
        case .null, .key, .objectEnd, .arrayEnd, .end: return .null
        }
    }

    // MARK: Parts

    /// The value of the member with the given name; `nil` if no member has the name, or if the value is no object.
    package subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    package var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The number as an integer; `nil` for a fraction, an exponent, or another kind of value.
    package var integer: Int64? {
        guard case .number(let text) = self else { return nil }
        return Int64(text)
    }

    package var bool: Bool? {
        guard case .bool(let flag) = self else { return nil }
        return flag
    }

    package var array: [JSONValue]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }
}
