import Bytes

extension JSONReader {
    /// The content of a JSON string, with its escapes decoded.
    package func string(_ text: Text) -> String { Self.string(text, in: bytes) }

    static func string(_ text: Text, in bytes: [UInt8]) -> String {
        guard text.hasEscapes else { return String(decoding: bytes[text.range], as: UTF8.self) }
        var out: [UInt8] = []
        out.reserveCapacity(text.range.count)
        var index = text.range.lowerBound
        while index < text.range.upperBound {
            guard bytes[index] == UInt8(ascii: "\\") else {
                out.append(bytes[index])
                index += 1
                continue
            }
            switch bytes[index + 1] {
            case UInt8(ascii: "u"): index = append(characterAt: index, of: bytes, to: &out)
            case let letter:
                out.append(Self.meaning(of: letter))
                index += 2
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// Whether a key or string equals the text `name`. Precondition: `name` has no characters that JSON must escape.
    package func isEqual(_ text: Text, to name: StaticString) -> Bool {
        guard !text.hasEscapes else { return string(text) == name.description }
        return name.withUTF8Buffer { name in
            guard name.count == text.range.count else { return false }
            for index in name.indices where unsafe name[index] != bytes[text.range.lowerBound + index] { return false }
            return true
        }
    }

    /// The digits of a number, exactly as in the input.
    package func number(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    private static func meaning(of letter: UInt8) -> UInt8 {
        switch letter {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0c
        case UInt8(ascii: "n"): 0x0a
        case UInt8(ascii: "r"): 0x0d
        case UInt8(ascii: "t"): 0x09
        default: letter
        }
    }

    /// Decodes one escape `\uXXXX` or a surrogate pair, appends the character, and returns the index after it.
    private static func append(characterAt start: Int, of bytes: [UInt8], to out: inout [UInt8]) -> Int {
        let first = codeUnit(at: start + 2, of: bytes)
        guard UTF16.isLeadSurrogate(first) else {
            out.append(contentsOf: String(decoding: [first], as: UTF16.self).utf8)
            return start + 6
        }
        out.append(contentsOf: String(decoding: [first, codeUnit(at: start + 8, of: bytes)], as: UTF16.self).utf8)
        return start + 12
    }

    private static func codeUnit(at index: Int, of bytes: [UInt8]) -> UInt16 {
        bytes[index..<index + 4].reduce(0) { $0 << 4 | UInt16($1.hexValue ?? 0) }
    }
}
