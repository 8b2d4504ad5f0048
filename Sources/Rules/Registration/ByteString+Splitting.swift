package import Bytes
import SIPGrammar

extension ByteString {
    /// Splits a text at the separators outside double quotes, and returns empty parts too.
    package func split(at separators: [UInt8]) -> [ByteString] {
        var parts: [ByteString] = []
        var start = 0
        var isQuoted = false
        var index = 0
        while index < count {
            let byte = self[index]
            if isQuoted {
                if byte == UInt8(ascii: "\\") {
                    index += 1
                } else if byte == UInt8(ascii: "\"") {
                    isQuoted = false
                }
            } else if byte == UInt8(ascii: "\"") {
                isQuoted = true
            } else if separators.contains(byte) {
                parts.append(self[start..<index])
                start = index + 1
            }
            index += 1
        }
        parts.append(self[start..<count])
        return parts
    }

    /// The text without leading and trailing white space and line ends.
    package func trimmed() -> ByteString {
        self[withSpan { $0.trimmed(0..<count) }]
    }
}

extension UInt8 {
    /// Whether the byte is a letter, a digit or a `mark` (RFC 3261 section 25.1), which means the same with and without
    /// percent-encoding.
    var isUnreserved: Bool {
        switch self {
        case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: "!"), UInt8(ascii: "~"),
            UInt8(ascii: "*"), UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"):
            true
        default: isASCIILetter || isASCIIDigit
        }
    }

    /// Whether the byte is allowed in a URI parameter without percent-encoding (`paramchar`).
    var isParameterCharacter: Bool {
        switch self {
        case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "/"), UInt8(ascii: ":"), UInt8(ascii: "&"),
            UInt8(ascii: "+"), UInt8(ascii: "$"):
            true
        default: isUnreserved
        }
    }
}
