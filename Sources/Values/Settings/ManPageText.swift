/// Text as a manual page wants it (man(7)): nothing of it is taken for an order to the formatter.
package enum ManPageText {
    /// What `mandoc -T lint` takes for a long line is longer.
    private static let columns = 78

    /// One line; what its author has broken is joined.
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
        // At the start of a line a full stop begins an order.
        return out.hasPrefix(".") ? "\\&" + out : out
    }

    /// A paragraph: a line ends with its sentence, or when it is long.
    package static func paragraph(_ text: String) -> String {
        var out = ""
        var width = 0
        for word in text.split(whereSeparator: { $0 == " " || $0 == "\n" }).map(String.init) {
            let next = escaped(word)
            let isNew = width == 0 || width + 1 + next.utf8.count > columns
            if width > 0 { out += isNew ? "\n" : " " }
            out += next
            width = isNew ? next.utf8.count : width + 1 + next.utf8.count
            // The formatter puts its own space behind a sentence that ends with its line.
            if word.hasSuffix(".") {
                out += "\n"
                width = 0
            }
        }
        return width == 0 ? out : out + "\n"
    }

    /// The first lines of a page.
    ///
    /// - Parameters:
    ///   - name: of the page.
    ///   - section: 5 for files, 8 for daemons.
    ///   - date: as `2026-11-26`.
    ///   - source: the program and its version.
    ///   - summary: what the page is about, without a full stop.
    /// - Returns: its head, its name and what it is about.
    package static func head(_ name: String, section: Int, date: String, source: String, summary: String) -> String {
        ".TH \(escaped(name.uppercased())) \(section) \(date) \"\(escaped(source))\"\n"
            + ".SH NAME\n\(escaped(name)) \\- \(escaped(summary))\n"
    }
}
