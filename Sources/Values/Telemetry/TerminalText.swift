/// Makes text from callers, phones and providers safe for a terminal.
package enum TerminalText {
    /// A value or a line, escaped as in the log: controls, line ends, invisible and direction-changing characters
    /// become `\u{…}`, `\n` and so on. Backslashes and quotes stay, so that the text can be typed.
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

    /// Text of several lines, such as the metrics and the sample of the settings. Its line ends stay.
    package static func escapedLines(_ text: String) -> String {
        escape(text, keepsLines: true) { "\\u{\(String($0.value, radix: 16))}" }
    }

    /// JSON: strings may have such characters as `\uXXXX`, and they do not occur elsewhere.
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
