extension JSONValue {
    /// Encodes a Swift value as JSON, with members in the order of the type's encoding.
    ///
    /// - Throws: an error if the type's own encoding throws, or if a number is not finite.
    package init(of value: some Encodable) throws {
        switch value {
        case let text as String: self = .string(text)
        case let flag as Bool: self = .bool(flag)
        case let number as Double:
            guard number.isFinite else { throw JSONMismatch(type: "a finite number") }
            let text = "\(number)"
            self = .number(text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
        case let number as any FixedWidthInteger: self = .number("\(number)")
        default:
            let draft = Draft()
            try value.encode(to: draft)
            self = draft.value
        }
    }
}

/// Collects the JSON values that a Swift type encodes. The encoder supports only types that encode members, elements,
/// or one basic value, and that nest no containers themselves.
private final class Draft: Encoder {
    private enum Kind {
        case members, elements, single
    }

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private var kind = Kind.single
    fileprivate var members: [JSONValue.Member] = []
    fileprivate var elements: [JSONValue] = []
    fileprivate var single = JSONValue.null

    var value: JSONValue {
        switch kind {
        case .members: .object(members)
        case .elements: .array(elements)
        case .single: single
        }
    }

    func container<Key>(keyedBy _: Key.Type) -> KeyedEncodingContainer<Key> {
        kind = .members
        return KeyedEncodingContainer(DraftMembers(draft: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        kind = .elements
        return DraftElements(draft: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { DraftSingle(draft: self) }

    static func noNesting() -> Never { preconditionFailure("a type nests containers in its own encode function") }
}

private struct DraftMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let draft: Draft
    let codingPath: [any CodingKey] = []

    func encodeNil(forKey key: Key) { draft.members.append(.init(key.stringValue, .null)) }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        draft.members.append(.init(key.stringValue, try JSONValue(of: value)))
    }

    func nestedContainer<K>(keyedBy _: K.Type, forKey _: Key) -> KeyedEncodingContainer<K> { Draft.noNesting() }
    func nestedUnkeyedContainer(forKey _: Key) -> any UnkeyedEncodingContainer { Draft.noNesting() }
    func superEncoder() -> any Encoder { Draft.noNesting() }
    func superEncoder(forKey _: Key) -> any Encoder { Draft.noNesting() }
}

private struct DraftElements: UnkeyedEncodingContainer {
    let draft: Draft
    let codingPath: [any CodingKey] = []

    var count: Int { draft.elements.count }
    func encodeNil() { draft.elements.append(.null) }
    func encode<Value: Encodable>(_ value: Value) throws { draft.elements.append(try JSONValue(of: value)) }

    func nestedContainer<K>(keyedBy _: K.Type) -> KeyedEncodingContainer<K> { Draft.noNesting() }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { Draft.noNesting() }
    func superEncoder() -> any Encoder { Draft.noNesting() }
}

private struct DraftSingle: SingleValueEncodingContainer {
    let draft: Draft
    let codingPath: [any CodingKey] = []

    func encodeNil() { draft.single = .null }
    func encode<Value: Encodable>(_ value: Value) throws { draft.single = try JSONValue(of: value) }
}
