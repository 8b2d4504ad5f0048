/// A whole JSON text as a Swift value, for texts that are small or rarely read. For large or frequent texts,
/// ``JSONReader`` is faster.
package enum JSONValue: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        package let key: String
        package let value: JSONValue
    }

    case null
    case bool(Bool)
    /// A number, stored as its text, because JSON limits neither the size nor the precision of numbers.
    case number(String)
    case string(String)
    case array([JSONValue])
    /// The members of an object, in the order of the text. All members of an object have different names.
    case object([Member])

    package init(_ bytes: [UInt8], limits: JSONReader.Limits = JSONReader.Limits()) throws(JSONError) {
        var reader = try JSONReader(bytes, limits: limits)
        self = try Self.read(try reader.next(), from: &reader)
        // If more text follows after the JSON value, the next call throws an error.
        _ = try reader.next()
    }

    /// Reads the JSON value whose first token is `token`. The function calls itself for nested values, up to the
    /// reader's limit of depth.
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
        // At the start of a value, the reader returns none of the tokens `key`, `objectEnd`, `arrayEnd` and `end`.
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

    /// The number as an integer; `nil` if the number has a fraction or an exponent, or if the value is no number.
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
