import Telemetry

/// Parts of an HTML page, in which all texts are escaped.
enum HTMLText {
    /// A text between tags or in a quoted attribute. Invisible characters, and characters that change the direction of
    /// reading, become `\u{…}`.
    static func escaped(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { (0x20...0x7e).contains($0) || $0 == UInt8(ascii: "\n") }
        var out: [UInt8] = []
        for byte in (isPlain ? text : TerminalText.escapedLines(text)).utf8 {
            switch byte {
            case UInt8(ascii: "&"): out += "&amp;".utf8
            case UInt8(ascii: "<"): out += "&lt;".utf8
            case UInt8(ascii: ">"): out += "&gt;".utf8
            case UInt8(ascii: "\""): out += "&quot;".utf8
            case UInt8(ascii: "'"): out += "&#39;".utf8
            default: out.append(byte)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// A short text that does not affect the reading direction around it.
    static func isolated(_ text: String) -> String { "<bdi>\(escaped(text))</bdi>" }

    /// Lines of text, each isolated from the reading direction of its neighbours.
    static func block(_ text: String) -> String {
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
            Substring($0)
        }
        return "<pre>\n" + lines.map { $0.isEmpty ? "" : isolated(String($0)) }.joined(separator: "\n") + "</pre>"
    }

    /// The start of a text, of at most `limit` bytes.
    static func cut(_ text: String, to limit: Int) -> (text: String, isCut: Bool) {
        guard text.utf8.count > limit else { return (text, false) }
        var end = text.utf8.index(text.startIndex, offsetBy: limit)
        while end > text.startIndex, end.samePosition(in: text.unicodeScalars) == nil {
            end = text.utf8.index(before: end)
        }
        return (String(text[..<end]), true)
    }

    /// A text of one line, of at most `limit` characters.
    static func label(_ text: String, _ limit: Int) -> String {
        let scalars = text.unicodeScalars
        guard scalars.count > limit else { return text }
        return String(String.UnicodeScalarView(scalars.prefix(limit - 1))) + "…"
    }
}
