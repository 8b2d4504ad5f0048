/// Writes text for manual pages (man(7)), with all commands of the formatter escaped.
package enum ManPageText {
    /// The maximum length of a line in characters; `mandoc -T lint` complains about longer lines.
    private static let columns = 78

    /// Escapes a text for a manual page, and joins its lines into one.
    package static func escaped(_ text: String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": out += "\\e"
            case "-": out += "\\-"
            case "`": out += "\\(ga"
            case "'": out += "\\(aq"
            case "^": out += "\\(ha"
            case "~": out += "\\(ti"
            case "\n": out += " "
            case _ where scalar.isASCII: out.unicodeScalars.append(scalar)
            default:
                let digits = String(scalar.value, radix: 16, uppercase: true)
                out += "\\[u" + String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits + "]"
            }
        }
        // The formatter would read a full stop at the start of a line as a command.
        return out.hasPrefix(".") ? "\\&" + out : out
    }

    /// Writes a paragraph, with each sentence on a new line, and long sentences broken into lines.
    package static func paragraph(_ text: String) -> String {
        var out = ""
        var width = 0
        for word in text.split(whereSeparator: { $0 == " " || $0 == "\n" }).map(String.init) {
            let next = escaped(word)
            let isNew = width == 0 || width + 1 + next.utf8.count > columns
            if width > 0 { out += isNew ? "\n" : " " }
            out += next
            width = isNew ? next.utf8.count : width + 1 + next.utf8.count
            // The formatter puts the right space after a sentence only if it ends its line.
            if word.hasSuffix(".") {
                out += "\n"
                width = 0
            }
        }
        return width == 0 ? out : out + "\n"
    }

    /// The first lines of a manual page: title, name and summary.
    ///
    /// - Parameters:
    ///   - name: the name of the page.
    ///   - section: the section of the manual: 5 for files, 8 for daemons.
    ///   - date: a date such as `2026-11-26`.
    ///   - source: the program and its version.
    ///   - summary: the subject of the page, without a full stop.
    /// - Returns: lines in the language of man(7).
    package static func head(_ name: String, section: Int, date: String, source: String, summary: String) -> String {
        ".TH \(escaped(name.uppercased())) \(section) \(date) \"\(escaped(source))\"\n"
            + ".SH NAME\n\(escaped(name)) \\- \(escaped(summary))\n"
    }
}
