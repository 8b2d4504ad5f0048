package import Bytes

extension Array<UInt8> {
    /// Appends a JSON string with its quotes. The content may be any bytes; bytes that are not UTF-8 become U+FFFD.
    /// Quotes, backslashes, control characters, and the two line separators of JavaScript are escaped.
    ///
    /// - Parameters:
    ///   - bytes: the content of the string.
    ///   - limit: the maximum number of bytes between the quotes; a longer string is cut after a whole character.
    package mutating func append(jsonString bytes: Span<UInt8>, atMost limit: Int = .max) {
        append(UInt8(ascii: "\""))
        let (end, overflow) = count.addingReportingOverflow(limit)
        appendJSONCharacters(of: bytes, endingAt: overflow ? .max : end)
        append(UInt8(ascii: "\""))
    }

    package mutating func append(jsonString bytes: ByteString, atMost limit: Int = .max) {
        bytes.withSpan { append(jsonString: $0, atMost: limit) }
    }

    package mutating func append(jsonString text: String, atMost limit: Int = .max) {
        append(jsonString: text.utf8.span, atMost: limit)
    }

    private mutating func appendJSONCharacters(of bytes: Span<UInt8>, endingAt end: Int) {
        var index = 0
        while index < bytes.count {
            let run = Swift.min(bytes.plainEnd(from: index), index + Swift.min(bytes.count - index, end - count))
            if run > index {
                unsafe bytes.extracting(index..<run).withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
                index = run
                continue
            }
            let character = EscapedCharacter(at: index, of: bytes)
            guard count + character.escapedLength <= end else { return }
            switch character.form {
            case .plain:
                for offset in 0..<character.length { append(bytes[index + offset]) }
            case .short(let letter):
                append(UInt8(ascii: "\\"))
                append(letter)
            case .hex(let unit):
                append("\\u")
                append(hex: UInt8(truncatingIfNeeded: unit >> 8))
                append(hex: UInt8(truncatingIfNeeded: unit))
            case .replacement: append("\u{FFFD}")
            }
            index += character.length
        }
    }
}

extension Span<UInt8> {
    /// The index of the first byte from `start` on that JSON must escape, or that is not ASCII.
    fileprivate func plainEnd(from start: Int) -> Int {
        let one: UInt64 = 0x0101_0101_0101_0101
        var index = start
        unsafe withUnsafeBytes { bytes in
            while index + 8 <= count {
                let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                let quotes = word ^ (one &* UInt64(UInt8(ascii: "\"")))
                let backslashes = word ^ (one &* UInt64(UInt8(ascii: "\\")))
                // A set top bit of a byte means that the byte, or an earlier one of the word, needs an escape.
                let marks = word | (word &- one &* 0x20) | (quotes &- one) | (backslashes &- one)
                guard marks & (one &* 0x80) == 0 else { break }
                index += 8
            }
        }
        let special: UInt64 = 1 << UInt64(UInt8(ascii: "\"")) | 0xffff_ffff
        while index < count {
            let byte = self[index]
            if byte < 64 ? special &>> UInt64(byte) & 1 != 0 : byte == UInt8(ascii: "\\") || byte >= 0x80 { break }
            index += 1
        }
        return index
    }
}

/// One character of the input, with its escaped form.
private struct EscapedCharacter {
    enum Form {
        case plain
        case short(UInt8)
        case hex(UInt16)
        case replacement
    }

    let form: Form
    /// The character's length in the input, in bytes.
    let length: Int

    init(at index: Int, of bytes: Span<UInt8>) {
        let byte = bytes[index]
        guard byte >= 0x80 else {
            length = 1
            form =
                switch byte {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"): .short(byte)
                case 0x08: .short(UInt8(ascii: "b"))
                case 0x09: .short(UInt8(ascii: "t"))
                case 0x0a: .short(UInt8(ascii: "n"))
                case 0x0c: .short(UInt8(ascii: "f"))
                case 0x0d: .short(UInt8(ascii: "r"))
                case 0..<0x20: .hex(UInt16(byte))
                default: .plain
                }
            return
        }
        let (good, isComplete) = Self.sequence(at: index, of: bytes)
        length = good
        if !isComplete {
            form = .replacement
        } else if byte == 0xe2, bytes[index + 1] == 0x80, bytes[index + 2] & 0xfe == 0xa8 {
            form = .hex(0x2000 | UInt16(bytes[index + 2] & 0x3f))
        } else {
            form = .plain
        }
    }

    var escapedLength: Int {
        switch form {
        case .plain: length
        case .short: 2
        case .hex: 6
        case .replacement: 3
        }
    }

    /// The number of bytes of the character at `index`, and whether it is complete (Unicode table 3-7). An incomplete
    /// character ends before the first byte that cannot belong to it, as in Swift's own decoder.
    private static func sequence(at index: Int, of bytes: Span<UInt8>) -> (length: Int, isComplete: Bool) {
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xbf
        switch bytes[index] {
        case 0xc2...0xdf: length = 2
        case 0xe0...0xef:
            length = 3
            if bytes[index] == 0xe0 { second = 0xa0...0xbf }
            if bytes[index] == 0xed { second = 0x80...0x9f }
        case 0xf0...0xf4:
            length = 4
            if bytes[index] == 0xf0 { second = 0x90...0xbf }
            if bytes[index] == 0xf4 { second = 0x80...0x8f }
        default: return (1, false)
        }
        for offset in 1..<length {
            let allowed = offset == 1 ? second : 0x80...0xbf
            guard index + offset < bytes.count, allowed.contains(bytes[index + offset]) else { return (offset, false) }
        }
        return (length, true)
    }
}
