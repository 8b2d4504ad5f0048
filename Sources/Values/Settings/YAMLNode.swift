/// A position in a YAML file; lines and columns are counted from 1, columns in characters.
package struct YAMLPosition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let line: Int
    package let column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package static let start = YAMLPosition(line: 1, column: 1)

    package static func < (left: YAMLPosition, right: YAMLPosition) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }

    package var description: String { "\(line):\(column)" }
}

/// One value of a YAML document, with its position in the file.
///
/// Scalars are kept as text, because only the code that reads a value knows the expected type. For example, `no` means
/// false only where a truth value is expected. ``read(_:file:limits:)`` refuses anchors, aliases and tags.
package struct YAMLNode: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// A text or number. The value `isPlain` is true for a scalar without quotes that is no block scalar.
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        /// The entries of a mapping, in the order of the file and with different keys.
        case mapping([YAMLEntry])
    }

    package let content: Content
    package let position: YAMLPosition

    package init(_ content: Content, at position: YAMLPosition) {
        self.content = content
        self.position = position
    }
}

/// One entry (`key: value`) of a mapping.
package struct YAMLEntry: Hashable, Sendable {
    package let key: String
    package let keyPosition: YAMLPosition
    package let value: YAMLNode

    package init(key: String, keyPosition: YAMLPosition, value: YAMLNode) {
        self.key = key
        self.keyPosition = keyPosition
        self.value = value
    }
}

// MARK: The content

extension YAMLNode {
    /// Whether the node means "no value": it is empty, `~` or `null`.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content else { return false }
        return text.isEmpty || text == "~" || text == "null"
    }

    /// The text of a scalar; `nil` for a list, a mapping or null.
    package var text: String? {
        guard case .scalar(let text, _) = content, !isNull else { return nil }
        return text
    }

    /// The value of a decimal number without quotes; `nil` for any other node.
    package var integer: Int? {
        guard case .scalar(let text, isPlain: true) = content else { return nil }
        return Int(text)
    }

    /// True for `true`, `yes` and `on`, false for `false`, `no` and `off`, all without quotes; otherwise `nil`.
    package var flag: Bool? {
        guard case .scalar(let text, isPlain: true) = content else { return nil }
        switch text.lowercased() {
        case "true", "yes", "on": return true
        case "false", "no", "off": return false
        default: return nil
        }
    }

    /// The elements of a list; empty for null, and `nil` for a text or a mapping.
    package var items: [YAMLNode]? {
        if case .sequence(let items) = content { return items }
        return isNull ? [] : nil
    }

    /// The entries of a mapping; empty for null, and `nil` for a text or a list.
    package var entries: [YAMLEntry]? {
        if case .mapping(let entries) = content { return entries }
        return isNull ? [] : nil
    }

    /// The value for the key; `nil` if the node is no mapping or lacks the key.
    package subscript(key: String) -> YAMLNode? { entries?.first { $0.key == key }?.value }

    /// The value in error messages: `"tree"`, `a list`, `a group of keys` or `nothing`.
    package var found: String {
        switch content {
        case .scalar(let text, _): isNull ? "nothing" : YAMLText.shownInError(text)
        case .sequence: "a list"
        case .mapping: "a group of keys"
        }
    }
}
