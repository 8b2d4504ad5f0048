import Telemetry

/// Parts of a page, in which all texts are escaped.
enum HTMLText {
    /// An HTML text between tags or in a quoted attribute. Characters that are invisible, or that change the direction
    /// of reading, become `\u{…}`.
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

    /// A short text whose direction of reading does not affect the text around it.
    static func isolated(_ text: String) -> String { "<bdi>\(escaped(text))</bdi>" }

    /// Lines of text, each isolated from the text direction of its neighbours.
    static func block(_ text: String) -> String {
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
            Substring($0)
        }
        return "<pre>\n" + lines.map { $0.isEmpty ? "" : isolated(String($0)) }.joined(separator: "\n") + "</pre>"
    }

    /// The start of a text, at most this many bytes.
    static func cut(_ text: String, to limit: Int) -> (text: String, isCut: Bool) {
        guard text.utf8.count > limit else { return (text, false) }
        var end = text.utf8.index(text.startIndex, offsetBy: limit)
        while end > text.startIndex, end.samePosition(in: text.unicodeScalars) == nil {
            end = text.utf8.index(before: end)
        }
        return (String(text[..<end]), true)
    }

    /// A text of one line with at most this many characters.
    static func label(_ text: String, _ limit: Int) -> String {
        let scalars = text.unicodeScalars
        guard scalars.count > limit else { return text }
        return String(String.UnicodeScalarView(scalars.prefix(limit - 1))) + "…"
    }
}
