extension SettingsGroup {
    /// A complete file: every key with its help and its default, commented out, so that reading it gives the defaults.
    ///
    /// A required key stands there with its example, so that the file is accepted as it is.
    /// Help begins with `# `, a commented key with `#` alone: taking each such `#` away leaves valid YAML.
    ///
    /// - Parameter title: the first lines of the file, without `#`.
    /// - Returns: YAML.
    package static func sample(title: String) -> String {
        var writer = SampleWriter(showsHelp: true, commentsValues: true)
        writer.comment(title, indent: 0)
        writer.comment(
            "Every key may be left out; the commented ones show what then holds, or an example where nothing does. "
                + "Durations: 300ms, 30s, 5m, 1h, 7d. Sizes: 64KiB, 1MiB.", indent: 0)
        writer.lines(Self().outline, indent: 0)
        return writer.out
    }

    /// The settings as they hold, every key, secrets left out.
    package func effective() -> String {
        var writer = SampleWriter(showsHelp: false, commentsValues: false)
        writer.lines(outline, indent: 0)
        return writer.out
    }
}

/// Writes outlines as YAML, either as the commented sample or as plain values.
private struct SampleWriter {
    private static let step = 4
    private static let columns = 100

    let showsHelp: Bool
    let commentsValues: Bool
    var out = ""

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
        for line in lines { write(line, indent: indent, isCommented: commentsValues) }
    }

    private mutating func write(_ line: SettingLine, indent: Int, isCommented: Bool, prefix: String = "") {
        if showsHelp {
            if prefix.isEmpty, indent == 0 { out += "\n" }
            comment(line.help + (line.isRequired ? " (required)" : ""), indent: indent)
        }
        let mark = isCommented && (!line.isRequired || isInsideComment) ? "#" : ""
        switch line.outline {
        case .value(_, let text, let example):
            // Without a value the plain form writes nothing after the key, which reads as "none".
            let shown = showsHelp ? example ?? text ?? "" : text ?? ""
            put("\(mark)\(prefix)\(line.key):" + (shown.isEmpty ? "" : " \(shown)"), indent)
        case .group(let inner):
            // The header stays: a group without keys is the group with its defaults.
            put("\(isInsideComment ? mark : "")\(prefix)\(line.key):", indent)
            nested(inner, indent: indent + prefix.utf8.count + Self.step, isCommented: isCommented)
        case .optionalGroup(let inner, let example):
            put("\(mark)\(prefix)\(line.key):", indent)
            guard let shown = inner ?? (showsHelp ? example : nil) else { return }
            commented { $0.nested(shown, indent: indent + prefix.utf8.count + Self.step, isCommented: isCommented) }
        case .groups(let items, let example):
            let shown = items.isEmpty && showsHelp ? [example] : items
            put("\(mark)\(prefix)\(line.key):" + (shown.isEmpty ? " []" : ""), indent)
            let inside = indent + prefix.utf8.count + Self.step
            commented { writer in
                for item in shown { writer.item(item, indent: inside, isCommented: isCommented) }
            }
        case .named(let items, let example):
            let shown = items.isEmpty && showsHelp ? [example] : items
            put("\(mark)\(prefix)\(line.key):" + (shown.isEmpty ? " {}" : ""), indent)
            let inside = indent + prefix.utf8.count + Self.step
            commented { writer in
                for item in shown {
                    writer.put("\(mark)\(YAMLText.scalar(item.name)):", inside)
                    writer.nested(item.lines, indent: inside + Self.step, isCommented: isCommented)
                }
            }
        }
    }

    /// Inside a commented list or map even the headers of groups are commented.
    private var isInsideComment = false

    private mutating func commented(_ body: (inout SampleWriter) -> Void) {
        let before = isInsideComment
        isInsideComment = true
        body(&self)
        isInsideComment = before
    }

    private mutating func nested(_ lines: [SettingLine], indent: Int, isCommented: Bool) {
        for line in lines { write(line, indent: indent, isCommented: isCommented) }
    }

    private mutating func item(_ lines: [SettingLine], indent: Int, isCommented: Bool) {
        for (index, line) in lines.enumerated() {
            if index == 0 {
                write(line, indent: indent, isCommented: isCommented, prefix: "- ")
            } else {
                write(line, indent: indent + 2, isCommented: isCommented)
            }
        }
    }

    private mutating func put(_ text: String, _ indent: Int) {
        out += String(repeating: " ", count: indent) + text + "\n"
    }

    init(showsHelp: Bool, commentsValues: Bool) {
        self.showsHelp = showsHelp
        self.commentsValues = commentsValues
    }
}
