/// The allowed texts for one key, and their conversion to a value.
///
/// Types can be combined, as in `.list(of: .duration())`. A module makes types for its own forms of values with
/// ``parsed(_:_:print:)``.
package struct SettingType<Value: Sendable>: Sendable {
    /// The name of the type for the manual in one or two words, such as `duration`.
    package let name: String
    /// Converts a YAML node to a value, or throws if the node does not have the type.
    package let read: @Sendable (YAMLNode) throws(SettingMismatch) -> Value
    /// Converts a value to YAML, and hides the value if it is a secret.
    package let print: @Sendable (Value) -> String

    package init(
        name: String, read: @escaping @Sendable (YAMLNode) throws(SettingMismatch) -> Value,
        print: @escaping @Sendable (Value) -> String
    ) {
        self.name = name
        self.read = read
        self.print = print
    }
}

/// Why a YAML node does not fit the type of its key.
package struct SettingMismatch: Error, Hashable {
    package let message: String
    package let position: YAMLPosition

    package init(_ message: String, at position: YAMLPosition) {
        self.message = message
        self.position = position
    }

    static func expected(_ what: String, found node: YAMLNode) -> SettingMismatch {
        SettingMismatch("expected \(what), found \(node.found)", at: node.position)
    }
}

/// Why a text, or a combination of settings, is refused, as a sentence without a full stop.
package struct SettingComplaint: Error, Hashable, Sendable {
    package let sentence: String
    /// The key to change; `nil` if the complaint is about the whole group.
    package let key: String?

    package init(_ sentence: String, key: String? = nil) {
        self.sentence = sentence
        self.key = key
    }
}

// MARK: Scalars

extension SettingType<Bool> {
    package static var bool: SettingType {
        SettingType(name: "true or false") { node throws(SettingMismatch) in
            guard let flag = node.flag else { throw .expected("true or false", found: node) }
            return flag
        } print: {
            $0 ? "true" : "false"
        }
    }
}

extension SettingType where Value: FixedWidthInteger {
    package static func integer(in range: ClosedRange<Value> = 0...Value.max) -> SettingType {
        let isOpen = range.upperBound == Value.max && Value.bitWidth > 16
        let bounds = isOpen ? "of at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
        let name = isOpen ? "integer" : "integer \(range.lowerBound)…\(range.upperBound)"
        return SettingType(name: name) { node throws(SettingMismatch) in
            guard let number = node.integer, let value = Value(exactly: number), range.contains(value) else {
                throw .expected("a whole number \(bounds)", found: node)
            }
            return value
        } print: {
            "\($0)"
        }
    }
}

extension SettingType<Duration> {
    /// A duration: a number with a unit `ms`, `s`, `m`, `h` or `d`, or in seconds without a unit.
    package static func duration(in range: ClosedRange<Duration>? = nil) -> SettingType {
        var bounds = ""
        if let range {
            bounds = " from \(QuantityText.text(range.lowerBound)) to \(QuantityText.text(range.upperBound))"
        }
        let expected = "a duration such as 300ms, 30s, 5m, 1h or 7d" + bounds
        return SettingType(name: "duration") { node throws(SettingMismatch) in
            guard let text = node.text, let value = QuantityText.duration(text), range?.contains(value) ?? true else {
                throw .expected(expected, found: node)
            }
            return value
        } print: {
            QuantityText.text($0)
        }
    }
}

extension SettingType<String> {
    /// Any text except the empty text.
    package static var string: SettingType { text(name: "text", expected: "a text") }

    /// The path of a file or folder, relative to the daemon's working directory. The text `credential:NAME` names a
    /// file that systemd passes to the service.
    package static var path: SettingType {
        let text = text(name: "path", expected: "a path")
        return SettingType(name: text.name) { node throws(SettingMismatch) in
            let path = try text.read(node)
            do throws(SettingComplaint) {
                return try Credential.path(of: path)
            } catch {
                throw SettingMismatch("\(error.sentence), found \(node.found)", at: node.position)
            }
        } print: {
            text.print($0)
        }
    }

    private static func text(name: String, expected: String) -> SettingType {
        SettingType(name: name) { node throws(SettingMismatch) in
            guard let text = node.text, !text.isEmpty, !text.utf8.contains(0) else {
                throw .expected(expected, found: node)
            }
            return text
        } print: {
            YAMLText.scalar($0)
        }
    }
}

extension SettingType<Secret> {
    /// A secret text, which no output shows, not even an error message.
    package static var secret: SettingType {
        SettingType(name: "secret") { node throws(SettingMismatch) in
            guard let text = node.text, !text.isEmpty, !text.utf8.contains(0) else {
                throw SettingMismatch("expected a text", at: node.position)
            }
            return Secret(text)
        } print: { _ in
            "\"(secret)\""
        }
    }
}

// MARK: Choices and parsed texts

extension SettingType where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    /// An enum, whose raw values are the allowed texts.
    package static var choice: SettingType {
        let names = Value.allCases.map(\.rawValue)
        return SettingType(name: names.joined(separator: ", ")) { node throws(SettingMismatch) in
            if let text = node.text {
                if let value = Value(rawValue: text) { return value }
                if let near = EditDistance.nearest(to: text, among: names) {
                    throw SettingMismatch(
                        "expected \(EditDistance.alternatives(names)), found \(node.found); did you mean \"\(near)\"?",
                        at: node.position)
                }
            }
            throw .expected(EditDistance.alternatives(names), found: node)
        } print: {
            YAMLText.scalar($0.rawValue)
        }
    }
}

extension SettingType {
    /// A type whose texts `parse` converts to values. If `parse` refuses a text, the error contains the complaint of
    /// `parse`.
    ///
    /// - Parameters:
    ///   - name: one or two words for the manual, such as `address:port`.
    ///   - parse: returns the value, or throws a complaint, to which the words "found …" are appended.
    ///   - print: the text that `parse` reads as the same value.
    /// - Returns: the type.
    package static func parsed(
        _ name: String, _ parse: @escaping @Sendable (String) throws(SettingComplaint) -> Value,
        print: @escaping @Sendable (Value) -> String
    ) -> SettingType {
        SettingType(name: name) { node throws(SettingMismatch) in
            guard let text = node.text else { throw .expected("a text (\(name))", found: node) }
            do throws(SettingComplaint) {
                return try parse(text)
            } catch {
                throw SettingMismatch("\(error.sentence), found \(node.found)", at: node.position)
            }
        } print: {
            YAMLText.scalar(print($0))
        }
    }

    /// A list of values of the type `element`; a single value is treated as a list.
    package static func list<Element>(
        of element: SettingType<Element>, atMost limit: Int = 1000
    ) -> SettingType where Value == [Element] {
        SettingType(name: "list of \(element.name)") { node throws(SettingMismatch) in
            let items = node.items ?? [node]
            guard items.count <= limit else {
                throw SettingMismatch("expected at most \(limit) values, found \(items.count)", at: node.position)
            }
            var values: [Element] = []
            for item in items { values.append(try element.read(item)) }
            return values
        } print: {
            "[\($0.map(element.print).joined(separator: ", "))]"
        }
    }
}

extension SettingType<String> {
    /// A text that `check` accepts. If `check` refuses a text, the error contains its complaint.
    package static func checked(
        _ name: String, _ check: @escaping @Sendable (String) throws(SettingComplaint) -> Void
    ) -> SettingType {
        parsed(name) { text throws(SettingComplaint) in
            try check(text)
            return text
        } print: {
            $0
        }
    }
}
