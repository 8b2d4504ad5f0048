/// Makes text from callers, phones and providers safe for a terminal.
package enum TerminalText {
    /// Escapes a value or a line for a terminal, as the log does. Control characters, line ends, invisible characters
    /// and characters that change the reading direction become `\u{…}`, `\n` and so on. Backslashes and quotes stay
    /// unchanged, so that an operator can copy the text.
    package static func escaped(_ text: String) -> String {
        escape(text, keepsLines: false) { scalar in
            switch scalar {
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            default: "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
    }

    /// Escapes a text of several lines; the line ends stay unchanged.
    package static func escapedLines(_ text: String) -> String {
        escape(text, keepsLines: true) { "\\u{\(String($0.value, radix: 16))}" }
    }

    /// Replaces hidden characters in JSON text by `\uXXXX`; the text stays valid JSON.
    package static func escapedJSON(_ text: String) -> String {
        escape(text, keepsLines: true) { scalar in
            String(scalar).utf16.map { unit in
                let digits = String(unit, radix: 16)
                return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            }.joined()
        }
    }

    private static func escape(_ text: String, keepsLines: Bool, _ write: (Unicode.Scalar) -> String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            if keepsLines && scalar == "\n" || !LogEscaping.isHidden(scalar) {
                out.unicodeScalars.append(scalar)
            } else {
                out += write(scalar)
            }
        }
        return out
    }
}
