extension JSONValue {
    /// Decodes a Swift value of the given type from the JSON value. Members without a property in the type are ignored.
    package func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        let plain: Any? =
            switch type {
            case is String.Type: string
            case is Bool.Type: bool
            case is Double.Type: number.flatMap { Double($0) }
            case let type as any FixedWidthInteger.Type: number.flatMap { type.init($0) }
            default: try Value(from: Source(value: self))
            }
        guard let value = plain as? Value else { throw JSONMismatch(type: "\(type)") }
        return value
    }

    private var number: String? {
        guard case .number(let text) = self else { return nil }
        return text
    }
}

/// The error for a JSON value of another kind than the decoded type requires.
package struct JSONMismatch: Error, CustomStringConvertible {
    let type: String

    package var description: String { "expected \(type)" }
}

/// The decoder for one JSON value. The decoder supports only types that read members, elements, or one basic value.
private struct Source: Decoder, SingleValueDecodingContainer {
    let value: JSONValue
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw JSONMismatch(type: "an object") }
        return KeyedDecodingContainer(Members(members: members))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw JSONMismatch(type: "an array") }
        return Elements(elements: elements)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { value == .null }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try value.decoded(as: type) }
}

private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: [JSONValue.Member]
    let codingPath: [any CodingKey] = []

    var allKeys: [Key] { members.compactMap { Key(stringValue: $0.key) } }
    func contains(_ key: Key) -> Bool { value(of: key) != nil }
    func decodeNil(forKey key: Key) -> Bool { value(of: key) == .null }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        guard let value = value(of: key) else { throw JSONMismatch(type: "a member \(key.stringValue)") }
        return try value.decoded(as: type)
    }

    private func value(of key: Key) -> JSONValue? { members.first { $0.key == key.stringValue }?.value }

    func nestedContainer<K>(keyedBy type: K.Type, forKey key: Key) throws -> KeyedDecodingContainer<K> {
        try superDecoder(forKey: key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try superDecoder(forKey: key).unkeyedContainer()
    }
    func superDecoder() -> any Decoder { Source(value: .object(members)) }
    func superDecoder(forKey key: Key) -> any Decoder { Source(value: value(of: key) ?? .null) }
}

private struct Elements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let codingPath: [any CodingKey] = []
    var currentIndex = 0

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex == elements.count }

    mutating func decodeNil() -> Bool {
        guard !isAtEnd, elements[currentIndex] == .null else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try next().decoded(as: type) }

    private mutating func next() throws -> JSONValue {
        guard !isAtEnd else { throw JSONMismatch(type: "another element") }
        defer { currentIndex += 1 }
        return elements[currentIndex]
    }

    mutating func nestedContainer<K>(keyedBy type: K.Type) throws -> KeyedDecodingContainer<K> {
        try superDecoder().container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try superDecoder().unkeyedContainer()
    }
    mutating func superDecoder() throws -> any Decoder { Source(value: try next()) }
}
