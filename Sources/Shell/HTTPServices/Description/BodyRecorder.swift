/// A type of request or answer bodies; its schema can have descriptions and limits.
package protocol DescribedBody: Decodable {
    /// The name of the type's shared schema in the OpenAPI document; `nil` if the document repeats the schema at each
    /// use.
    static var schemaName: String? { get }
    /// The descriptions and limits of members, by the members' names. A note must not change the type of its member.
    static var notes: [String: JSONSchema] { get }
}

extension DescribedBody {
    package static var schemaName: String? { nil }
    package static var notes: [String: JSONSchema] { [:] }
}

/// A type whose JSON is a single value instead of an object.
package protocol DescribedValue: Decodable {
    static var schema: JSONSchema { get }
    /// Creates an empty value, which the recorder returns for a decoded member of the type.
    init()
}

extension JSONSchema {
    /// Creates the schema of a type by decoding a value and recording each decoded member.
    init(of body: any Decodable.Type) {
        do { self = try BodyRecorder.read(body).schema } catch { preconditionFailure("\(body): \(error)") }
    }
}

/// A ``Decoder`` that reads no input. For each decoded member, the decoder returns an empty value and records the
/// member.
private final class BodyRecorder: Decoder {
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    var members: [(key: String, schema: JSONSchema)] = []
    var optional: Set<String> = []

    static func read<Value: Decodable>(_ type: Value.Type) throws -> (value: Value, schema: JSONSchema) {
        if let (value, schema) = plain(type), let value = value as? Value { return (value, schema) }
        let recorder = BodyRecorder()
        let value = try Value(from: recorder)
        let described = type as? any DescribedBody.Type
        let notes = described?.notes ?? [:]
        precondition(notes.keys.allSatisfy(recorder.members.map(\.key).contains), "no member: \(notes.keys)")
        let schema = JSONSchema.object(
            recorder.members.map { ($0.key, $0.schema.noted(notes[$0.key])) },
            required: recorder.members.map(\.key).filter { !recorder.optional.contains($0) })
        return (value, described?.schemaName.map { .shared($0, schema) } ?? schema)
    }

    private static func plain(_ type: any Decodable.Type) -> (Any, JSONSchema)? {
        switch type {
        case is String.Type: ("", .text)
        case is Bool.Type: (false, .flag)
        // Most numbers are counts, dates and cursors, which are not negative. Only time differences have 32 bits; they
        // may be negative.
        case let number as any FixedWidthInteger.Type: (number.init(), number.bitWidth == 32 ? .number : .number(0...))
        case let list as any List.Type: (list.init(), .list(of: JSONSchema(of: list.element)))
        case let value as any DescribedValue.Type: (value.init(), value.schema)
        default: nil
        }
    }

    func container<Key>(keyedBy _: Key.Type) -> KeyedDecodingContainer<Key> { .init(Members(recorder: self)) }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw NotDescribed() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw NotDescribed() }
}

private struct NotDescribed: Error {}

private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let recorder: BodyRecorder
    let codingPath: [any CodingKey] = []
    let allKeys: [Key] = []

    /// Records that a member is optional: a type calls `contains` only before it decodes an optional member.
    func contains(_ key: Key) -> Bool { recorder.optional.insert(key.stringValue).inserted }
    func decodeNil(forKey _: Key) -> Bool { false }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        let (value, schema) = try BodyRecorder.read(type)
        recorder.members.append((key.stringValue, schema))
        return value
    }
    func nestedContainer<K>(keyedBy _: K.Type, forKey _: Key) throws -> KeyedDecodingContainer<K> {
        throw NotDescribed()
    }
    func nestedUnkeyedContainer(forKey _: Key) throws -> any UnkeyedDecodingContainer { throw NotDescribed() }
    func superDecoder() throws -> any Decoder { throw NotDescribed() }
    func superDecoder(forKey _: Key) throws -> any Decoder { throw NotDescribed() }
}

private protocol List {
    init()
    static var element: any Decodable.Type { get }
}

extension Array: List where Element: Decodable {
    static var element: any Decodable.Type { Element.self }
}
