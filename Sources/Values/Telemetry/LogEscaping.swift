import Bytes

/// Makes bytes safe for terminals and for line-based search tools.
enum LogEscaping {
    /// Whether the byte needs neither quotes nor escapes in a log line.
    static func isPlain(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
            && byte != UInt8(ascii: "=")
    }

    /// Appends a value for a log line; letters of all scripts stay unchanged. Control characters, invisible characters
    /// and characters that change the reading direction become `\u{…}`. Bytes that are not UTF-8 become `\xHH`. A
    /// logged value above the limit ends in `…`.
    static func append(_ value: [UInt8], atMost limit: Int, quote: Bool = true, to out: inout [UInt8]) {
        var decoder = UTF8.ForwardParser()
        var iterator = value.prefix(limit).makeIterator()
        var index = 0
        while true {
            switch decoder.parseScalar(from: &iterator) {
            case .valid(let encoded):
                index += encoded.count
                appendScalar(UTF8.decode(encoded), quote: quote, to: &out)
            case .error(let length):
                // Bytes that are no valid UTF-8 character are written as `\xHH`.
                for byte in value[index..<min(index + length, value.count)] {
                    out.append("\\x")
                    out.append(hex: byte)
                }
                index += length
            case .emptyInput:
                if value.count > limit { out.append(contentsOf: "…".utf8) }
                return
            }
        }
    }

    private static func appendScalar(_ scalar: Unicode.Scalar, quote: Bool, to out: inout [UInt8]) {
        switch scalar {
        case "\n": out.append("\\n")
        case "\r": out.append("\\r")
        case "\t": out.append("\\t")
        case "\\": out.append("\\\\")
        case "\"": out.append(quote ? "\\\"" : "\"")
        case " "..."~": out.append(UInt8(truncatingIfNeeded: scalar.value))
        default:
            if isHidden(scalar) {
                out.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".utf8)
            } else {
                out.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
    }

    /// Whether the character is invisible, or changes the appearance of other characters.
    static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: true
        default: false
        }
    }
}
