import SIPGrammar

extension UInt8 {
    /// Space or tab.
    var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

    /// A byte of an RFC 3261 token: method and header names.
    var isToken: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "!"),
            UInt8(ascii: "%"), UInt8(ascii: "*"), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "`"),
            UInt8(ascii: "'"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}

extension Span<UInt8> {
    /// The next control byte (below 0x20, or 0x7F) at or after `start`, or `end`; looks at eight bytes at a time.
    func nextControl(from start: Int, to end: Int) -> Int {
        precondition(start >= 0 && end <= count, "scan outside the bytes")
        let high: UInt64 = 0x8080_8080_8080_8080
        let one: UInt64 = 0x0101_0101_0101_0101
        var index = start
        unsafe withUnsafeBytes { raw in
            while index + 8 <= end {
                let word = UInt64(littleEndian: unsafe raw.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                let delete = word ^ (one &* 0x7f)
                // The lowest marked byte is right; a borrow can only mark bytes above it.
                let marks = ((word &- (one &* 0x20)) & ~word | (delete &- one) & ~delete) & high
                if marks != 0 {
                    index += marks.trailingZeroBitCount >> 3
                    return
                }
                index += 8
            }
            while index < end {
                let byte = unsafe raw[index]
                if byte < 0x20 || byte == 0x7f { return }
                index += 1
            }
        }
        return index
    }

    /// `range` without white space and folds at both ends.
    func trimmed(_ range: Range<Int>) -> Range<Int> {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, self[start].isLinearSpace { start += 1 }
        while start < end, self[end - 1].isLinearSpace { end -= 1 }
        return start..<end
    }

    /// The place behind the closing quote of a quoted string whose opening quote stands before `start`.
    func quoteEnd(from start: Int, to end: Int) -> Int? {
        var index = start
        while index < end {
            switch self[index] {
            case UInt8(ascii: "\\"): index += 2
            case UInt8(ascii: "\""): return index + 1
            default: index += 1
            }
        }
        return nil
    }

    /// The first such byte in `range`; looks at eight bytes at a time.
    func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "search outside the bytes")
        let one: UInt64 = 0x0101_0101_0101_0101
        var index = range.lowerBound
        return unsafe withUnsafeBytes { raw in
            while index + 8 <= range.upperBound {
                let word = UInt64(littleEndian: unsafe raw.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                let difference = word ^ (one &* UInt64(byte))
                let marks = (difference &- one) & ~difference & (one &* 0x80)
                if marks != 0 { return index + marks.trailingZeroBitCount >> 3 }
                index += 8
            }
            while index < range.upperBound {
                if unsafe raw[index] == byte { return index }
                index += 1
            }
            return nil
        }
    }

    func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        for index in range where self[index].asciiLowercased != lowercase.byte(at: index - range.lowerBound) {
            return false
        }
        return true
    }
}
