extension SettingsGroup {
    /// A complete sample of a settings file. The sample has every key with its help and its default. All keys in the
    /// sample are commented out, so that a program that reads the sample gets the defaults.
    ///
    /// A required key has its example and no comment mark, so that the unchanged sample is valid. In the sample, help
    /// texts begin with `# `, and commented keys with `#` alone. The file stays valid YAML if an operator removes the
    /// `#` before any key.
    ///
    /// - Parameter title: the first lines of the file, without `#`.
    /// - Returns: the sample in YAML.
    package static func sample(title: String) -> String {
        var writer = SampleWriter()
        writer.comment(title, indent: 0)
        writer.comment(
            "Every key is optional, except where it says required. A commented key shows its default, or an example if it "
                + "has none. Durations: 300ms, 30s, 5m, 1h, 7d. A change takes effect at a restart, or at SIGHUP if the key or "
                + "its group is marked with SIGHUP.",
            indent: 0)
        writer.lines(Self().outline, indent: 0)
        return writer.out
    }
}

/// Writes the keys of a settings group into the sample.
private struct SampleWriter {
    private static let step = 4
    private static let columns = 100

    var out = ""
    /// Whether the writer is inside a commented group, so that inner groups are commented out too.
    private var isInsideComment = false

    /// Writes a help text as comment lines.
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
            // A group without keys is valid and has the defaults, so its key needs no comment mark.
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
