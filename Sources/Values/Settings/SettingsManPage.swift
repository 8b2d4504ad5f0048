extension SettingsGroup {
    /// All settings as sections of a manual page (man(7)): first the top-level keys, then a section for each group.
    package static var manPageSections: String {
        var writer = ManPageWriter()
        writer.out = ".SH KEYS OF THE FILE\n"
        writer.section(Self().outline, prefix: "")
        return writer.out
    }
}

private struct ManPageWriter {
    var out = ""

    mutating func section(_ lines: [SettingLine], prefix: String) {
        for line in lines { value(line, prefix: prefix) }
        for line in lines {
            switch line.outline {
            case .value: continue
            case .group(let inner): group(line, "", inner, prefix: prefix)
            case .named(let items, let example):
                let lines = items.first?.lines ?? example.lines
                group(
                    line, " In the keys of this group, NAME stands for a name that you choose.", lines, prefix: prefix,
                    suffix: ".NAME")
            }
        }
    }

    private mutating func group(
        _ line: SettingLine, _ note: String, _ inner: [SettingLine], prefix: String, suffix: String = ""
    ) {
        out += ".SH \(ManPageText.escaped("\(prefix)\(line.key)"))\n" + ManPageText.paragraph(line.help + note)
        section(inner, prefix: "\(prefix)\(line.key)\(suffix).")
    }

    private mutating func value(_ line: SettingLine, prefix: String) {
        guard case .value(let type, let text, _) = line.outline else { return }
        let standing = line.isRequired ? "required" : text.map { "default: \($0)" } ?? "no default"
        out += ".TP\n.B \(ManPageText.escaped("\(prefix)\(line.key)"))\n"
        out += ManPageText.paragraph(line.help) + ".br\n" + ManPageText.paragraph("(\(type); \(standing))")
    }
}
