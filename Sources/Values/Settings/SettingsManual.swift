extension SettingsGroup {
    /// The manual of all settings in Markdown: a table of the top-level keys, then a section for each group. A column
    /// of each table says when a change takes effect.
    ///
    /// - Parameters:
    ///   - title: the heading of the manual.
    ///   - introduction: the paragraph after the heading.
    /// - Returns: the manual in Markdown.
    package static func manual(title: String, introduction: String) -> String {
        var writer = ManualWriter(out: "# \(title)\n\n\(introduction)\n")
        writer.section(Self().outline, prefix: "", .atRestart)
        return writer.out
    }
}

private struct ManualWriter {
    var out: String

    mutating func section(_ lines: [SettingLine], prefix: String, _ moment: ChangeMoment) {
        let values = lines.filter { if case .value = $0.outline { true } else { false } }
        if !values.isEmpty {
            out += "\n| Key | Type | Default | Taken at | Meaning |\n|---|---|---|---|---|\n"
            for line in values { row(line, prefix: prefix, line.moment ?? moment) }
        }
        for line in lines {
            switch line.outline {
            case .value: continue
            case .group(let inner): group(line, "", inner, prefix: prefix, moment)
            case .named(let items, let example):
                let lines = items.first?.lines ?? example.lines
                group(
                    line, " In the keys of this section, NAME stands for the name of a group.", lines, prefix: prefix,
                    moment,
                    suffix: ".NAME")
            }
        }
    }

    private mutating func group(
        _ line: SettingLine, _ note: String, _ inner: [SettingLine], prefix: String, _ moment: ChangeMoment,
        suffix: String = ""
    ) {
        out += "\n## `\(prefix)\(line.key)`\n\n\(line.help)\(note)\n"
        section(inner, prefix: "\(prefix)\(line.key)\(suffix).", line.moment ?? moment)
    }

    private mutating func row(_ line: SettingLine, prefix: String, _ moment: ChangeMoment) {
        guard case .value(let type, let text, _) = line.outline else { return }
        let standing = line.isRequired ? "required" : text.map { "`\($0)`" } ?? "none"
        out += "| `\(prefix)\(line.key)` | \(cell(type)) | \(cell(standing)) | \(moment.name) | \(cell(line.help)) |\n"
    }

    private func cell(_ text: String) -> String {
        text.split(separator: "|", omittingEmptySubsequences: false).joined(separator: "\\|")
            .split(separator: "\n").joined(separator: " ")
    }
}

extension ChangeMoment {
    /// The name of the moment of a change (SIGHUP or restart) in the manual and the sample.
    var name: String {
        switch self {
        case .atOnce: "SIGHUP"
        case .atRestart: "restart"
        }
    }
}
