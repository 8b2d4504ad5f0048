extension SettingsGroup {
    /// A complete file: every key with its help and its default, commented out, so that reading it gives the defaults.
    ///
    /// A required key has its example, so that the file is accepted unchanged. Help begins with `# `, a commented key
    /// with only `#`: removing each such `#` leaves valid YAML.
    ///
    /// - Parameter title: the first lines of the file, without `#`.
    /// - Returns: YAML.
    package static func sample(title: String) -> String {
        var writer = SampleWriter()
        writer.comment(title, indent: 0)
        writer.comment(
            "Every key may be left out; the commented ones show what then holds, or an example where nothing does. "
                + "Durations: 300ms, 30s, 5m, 1h, 7d. A change is taken at a restart, or at SIGHUP where a key or its group says so.",
            indent: 0)
        writer.lines(Self().outline, indent: 0)
        return writer.out
    }
}

/// Writes outlines as the commented sample.
private struct SampleWriter {
    private static let step = 4
    private static let columns = 100

    var out = ""
    /// Inside a commented map even the headers of groups are commented.
    private var isInsideComment = false

    /// Help text, wrapped.
    mutating func comment(_ text: String, indent: Int) {
        for paragraph in text.split(separator: "\n", omittingEmptySubsequences: false) {
            var line = "#"
            for word in paragraph.split(separator: " ") {
                if indent + line.utf8.count + 1 + word.utf8.count > Self.columns {
                    put(line, indent)
                    line = "#"
                }
                line += " " + word
            }
            put(line, indent)
        }
    }

    mutating func lines(_ lines: [SettingLine], indent: Int) {
        for line in lines { write(line, indent: indent) }
    }

    private mutating func write(_ line: SettingLine, indent: Int) {
        if indent == 0 { out += "\n" }
        let notes = (line.isRequired ? ["required"] : []) + [line.moment?.name].compactMap(\.self)
        comment(line.help + (notes.isEmpty ? "" : " (\(notes.joined(separator: ", ")))"), indent: indent)
        let mark = line.isRequired && !isInsideComment ? "" : "#"
        switch line.outline {
        case .value(_, let text, let example):
            let shown = example ?? text ?? ""
            put("\(mark)\(line.key):" + (shown.isEmpty ? "" : " \(shown)"), indent)
        case .group(let inner):
            // The header stays: a group without keys is the group with its defaults.
            put("\(isInsideComment ? mark : "")\(line.key):", indent)
            lines(inner, indent: indent + Self.step)
        case .named(let items, let example):
            put("\(mark)\(line.key):", indent)
            let before = isInsideComment
            isInsideComment = true
            for item in items.isEmpty ? [example] : items {
                put("\(mark)\(YAMLText.scalar(item.name)):", indent + Self.step)
                lines(item.lines, indent: indent + 2 * Self.step)
            }
            isInsideComment = before
        }
    }

    private mutating func put(_ text: String, _ indent: Int) {
        out += String(repeating: " ", count: indent) + text + "\n"
    }
}
