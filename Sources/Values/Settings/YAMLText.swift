/// Writes texts as YAML scalars, or as quotes in error messages.
package enum YAMLText {
    /// Writes a text as a YAML scalar, with quotes only if they are needed.
    package static func scalar(_ text: String) -> String { isSafePlain(text) ? text : quoted(text) }

    /// A text from the settings file, in quotes for an error message. The shown text is cut to 40 characters, and its
    /// control characters are escaped.
    static func shownInError(_ text: String) -> String {
        text.count > 40 ? quoted(String(text.prefix(40)) + "…") : quoted(text)
    }

    static func quoted(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\t": out += "\\t"
            case "\r": out += "\\r"
            default: appendPrintable(scalar, to: &out)
            }
        }
        return out + "\""
    }

    private static func appendPrintable(_ scalar: Unicode.Scalar, to out: inout String) {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
            let digits = String(scalar.value, radix: 16)
            let width = scalar.value > 0xFFFF ? 8 : 4
            out += width == 8 ? "\\U" : "\\u"
            out += String(repeating: "0", count: width - digits.count) + digits
        default:
            out.unicodeScalars.append(scalar)
        }
    }

    private static func isSafePlain(_ text: String) -> Bool {
        guard let first = text.utf8.first, isWordByte(first) || first == UInt8(ascii: "/") else { return false }
        guard text.utf8.last != UInt8(ascii: ":") else { return false }
        return text.utf8.allSatisfy { isWordByte($0) || "/:.@+-".utf8.contains($0) }
            && !["null", "true", "false", "yes", "no", "on", "off"].contains(text.lowercased())
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
