package import Settings

extension YAMLNode {
    /// Merges two mappings of a configuration, so that entries of the second mapping replace entries with equal keys.
    /// If both mappings contain a group, the group is merged entry by entry.
    package func overlaid(with other: YAMLNode) -> YAMLNode {
        guard case .mapping(var merged) = content, case .mapping(let others) = other.content else {
            return other.isNull ? self : other
        }
        for entry in others {
            if let index = merged.firstIndex(where: { $0.key == entry.key }) {
                let value = merged[index].value.overlaid(with: entry.value)
                merged[index] = YAMLEntry(key: entry.key, keyPosition: entry.keyPosition, value: value)
            } else {
                merged.append(entry)
            }
        }
        return YAMLNode(.mapping(merged), at: position)
    }

    /// Returns the YAML text of a node, with groups as blocks and lists in brackets.
    package var yaml: String { block(indent: 0) }

    private func block(indent: Int) -> String {
        guard case .mapping(let entries) = content, !entries.isEmpty else { return inline + "\n" }
        let margin = String(repeating: " ", count: indent)
        return entries.map { entry in
            let key = margin + Self.quoted(entry.key) + ":"
            if case .mapping(let inner) = entry.value.content, !inner.isEmpty {
                return key + "\n" + entry.value.block(indent: indent + 2)
            }
            return key + " " + entry.value.inline + "\n"
        }.joined()
    }

    private var inline: String {
        switch content {
        case .scalar(let text, let isPlain): isPlain ? text : Self.quoted(text)
        case .sequence(let items): "[" + items.map(\.inline).joined(separator: ", ") + "]"
        case .mapping(let entries):
            "{" + entries.map { Self.quoted($0.key) + ": " + $0.value.inline }.joined(separator: ", ") + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { $0 == UInt8(ascii: "-") || (0x61...0x7A).contains($0) }
        if isPlain, !text.isEmpty, !text.hasPrefix("-") { return text }
        return "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
            + "\""
    }
}
