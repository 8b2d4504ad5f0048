/// A place in a YAML file. Line and column are counted from 1; columns count characters.
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

/// One value of a YAML document with its start.
///
/// Scalars stay text: the reader of a value knows its type, so `no` is a name where a name is expected. Anchors,
/// aliases and tags do not occur; ``read(_:file:limits:)`` refuses them.
package struct YAMLNode: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// `isPlain` means that the text had no quotes and was not a block.
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        /// In the file's order; keys are unique.
        case mapping([YAMLEntry])
    }

    package let content: Content
    package let position: YAMLPosition

    package init(_ content: Content, at position: YAMLPosition) {
        self.content = content
        self.position = position
    }
}

/// One `key: value` of a mapping.
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

// MARK: Looking inside

extension YAMLNode {
    /// An empty value, `~` or `null`.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content else { return false }
        return text.isEmpty || text == "~" || text == "null"
    }

    /// The text of a scalar that is not null.
    package var text: String? {
        guard case .scalar(let text, _) = content, !isNull else { return nil }
        return text
    }

    /// A plain decimal number.
    package var integer: Int? {
        guard case .scalar(let text, isPlain: true) = content else { return nil }
        return Int(text)
    }

    /// `true`, `yes`, `on` and their opposites, without quotes.
    package var flag: Bool? {
        guard case .scalar(let text, isPlain: true) = content else { return nil }
        switch text.lowercased() {
        case "true", "yes", "on": return true
        case "false", "no", "off": return false
        default: return nil
        }
    }

    /// The members of a sequence; empty for a null, `nil` for anything else.
    package var items: [YAMLNode]? {
        if case .sequence(let items) = content { return items }
        return isNull ? [] : nil
    }

    /// The members of a mapping; empty for a null, `nil` for anything else.
    package var entries: [YAMLEntry]? {
        if case .mapping(let entries) = content { return entries }
        return isNull ? [] : nil
    }

    /// The value under `key` if this is a mapping that has it.
    package subscript(key: String) -> YAMLNode? { entries?.first { $0.key == key }?.value }

    /// The kind of this value, for an error sentence: `"tree"`, `a list`, `a group of keys`, `nothing`.
    package var found: String {
        switch content {
        case .scalar(let text, _): isNull ? "nothing" : YAMLText.shownInError(text)
        case .sequence: "a list"
        case .mapping: "a group of keys"
        }
    }
}
