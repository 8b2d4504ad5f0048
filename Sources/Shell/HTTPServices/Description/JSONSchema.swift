import JSON

/// A JSON Schema (draft 2020-12) with the keywords that `/openapi.json` uses.
package struct JSONSchema: Hashable, Sendable {
    private(set) var value: JSONValue
    /// The shared schemas to which ``value`` refers, by their names.
    private(set) var shared: [String: JSONValue]

    private init(_ members: [(String, JSONValue)], using others: [JSONSchema] = []) {
        value = .members(members)
        shared = [:]
        for other in others { shared.merge(other.shared) { first, _ in first } }
    }

    private static func typed(_ type: JSONValue, _ rules: [(String, JSONValue?)] = []) -> JSONSchema {
        JSONSchema([("type", type)] + rules.compactMap { name, rule in rule.map { (name, $0) } })
    }

    // MARK: Simple values

    package static let anything = JSONSchema([])
    /// A schema that has only a description, for a note on a member.
    package static func words(_ text: String) -> JSONSchema { .anything.described(text) }
    package static let text = typed("string")
    package static let flag = typed("boolean")
    package static let guid = typed("string", [("format", "uuid")])

    /// Returns the schema of a text whose length is in the given range. If `pattern` is given, a text in the schema
    /// must match the regular expression (ECMA 262).
    package static func text(_ lengths: ClosedRange<Int>, pattern: String? = nil) -> JSONSchema {
        typed(
            "string",
            [
                ("minLength", lengths.lowerBound > 0 ? .number(Int64(lengths.lowerBound)) : nil),
                ("maxLength", lengths.upperBound < .max ? .number(Int64(lengths.upperBound)) : nil),
                ("pattern", pattern.map { .string($0) }),
            ])
    }

    package static func text(pattern: String) -> JSONSchema { text(0 ... .max, pattern: pattern) }

    package static func choice(_ names: [String]) -> JSONSchema {
        typed("string", [("enum", .array(names.map { .string($0) }))])
    }

    package static let name = text(1...64, pattern: "^[A-Za-z0-9_.-]+$")
    package static func hexadecimal(_ digits: Int) -> JSONSchema { text(pattern: "^[0-9a-fA-F]{\(digits)}$") }

    package static let number = typed("integer")

    package static func number(_ range: ClosedRange<Int64>) -> JSONSchema {
        typed("integer", [("minimum", .number(range.lowerBound)), ("maximum", .number(range.upperBound))])
    }

    package static func number(_ range: PartialRangeFrom<Int64>) -> JSONSchema {
        typed("integer", [("minimum", .number(range.lowerBound))])
    }

    /// The schema of a number that may have decimals.
    package static let decimal = typed("number")

    /// The schema of a time in seconds since 1970.
    package static let date = number(0...)

    // MARK: Composed values

    package static func list(of element: JSONSchema, _ counts: ClosedRange<Int>? = nil) -> JSONSchema {
        var members: [(String, JSONValue)] = [("type", "array"), ("items", element.value)]
        if let counts {
            members += [
                ("minItems", .number(Int64(counts.lowerBound))), ("maxItems", .number(Int64(counts.upperBound))),
            ]
        }
        return JSONSchema(members, using: [element])
    }

    /// Returns the schema of an object with required and optional members. An object may have members with unknown
    /// names, which are ignored.
    package static func object(
        _ required: KeyValuePairs<String, JSONSchema>, optional: KeyValuePairs<String, JSONSchema> = [:]
    ) -> JSONSchema {
        object(Array(required) + Array(optional), required: required.map(\.key))
    }

    static func object(_ members: [(String, JSONSchema)], required: [String]) -> JSONSchema {
        JSONSchema(
            [("type", "object"), ("properties", .members(members.map { ($0.0, $0.1.value) }))]
                + (required.isEmpty ? [] : [("required", .array(required.map { .string($0) }))]),
            using: members.map(\.1))
    }

    /// Returns the schema of an object whose members have any names and values of the given schema.
    package static func map(of element: JSONSchema) -> JSONSchema {
        JSONSchema([("type", "object"), ("additionalProperties", element.value)], using: [element])
    }

    package static func either(_ choices: JSONSchema...) -> JSONSchema {
        JSONSchema([("anyOf", .array(choices.map(\.value)))], using: choices)
    }

    var orNull: JSONSchema { .either(self, .typed("null")) }

    // MARK: Annotations

    package func described(_ text: String) -> JSONSchema {
        noted(JSONSchema([("description", .string(text))]))
    }

    /// The schema with the keywords of a note; the note's keywords replace the schema's own keywords. A note must not
    /// change the schema's type.
    func noted(_ note: JSONSchema?) -> JSONSchema {
        guard let note, case .object(let own) = value, case .object(let more) = note.value else { return self }
        precondition(note.value["type"].map { $0 == value["type"] } ?? true, "a note of another type: \(more)")
        var copy = self
        copy.value = .object(own.filter { member in !more.contains { $0.key == member.key } } + more)
        return copy
    }

    /// Returns a reference to a shared schema, which the document defines once under the given name.
    package static func shared(_ name: String, _ schema: JSONSchema) -> JSONSchema {
        var reference = JSONSchema([("$ref", .string("#/components/schemas/\(name)"))], using: [schema])
        reference.shared[name] = schema.value
        return reference
    }
}
