import Bytes

extension UInt8 {
    /// Space or tab.
    var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

    /// A byte of an RFC 3261 token: letters, digits and `-.!%*_+`'~`.
    var isToken: Bool {
        let set: UInt64 = self < 64 ? 0x03ff_6ca2_0000_0000 : self < 128 ? 0x47ff_ffff_87ff_fffe : 0
        return set &>> UInt64(self & 63) & 1 != 0
    }
}

/// A byte below 64 as part of a set for ``Span/next(_:from:to:)``; folded into a constant, which a loop would not be.
@inline(__always)
func bit(_ byte: UInt8) -> UInt64 { 1 &<< UInt64(byte) }

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

    /// The next byte at or after `start` that may matter to the caller, or `end`: one whose bit is set in `below64`, or
    /// `@`, or a backslash, or 0x7F.
    func next(_ below64: UInt64, from start: Int, to end: Int) -> Int {
        precondition(start >= 0 && end <= count, "scan outside the bytes")
        var index = start
        unsafe withUnsafeBytes { raw in
            while index < end {
                let byte = unsafe raw[index]
                if byte < 64 {
                    if below64 &>> UInt64(byte) & 1 != 0 { return }
                } else if byte == UInt8(ascii: "@") || byte == UInt8(ascii: "\\") || byte == 0x7f {
                    return
                }
                index += 1
            }
        }
        return index
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

    /// Whether there are tabs or folds, white space that libosip2 does not know everywhere.
    func hasOddBlanks(_ range: Range<Int>) -> Bool {
        nextControl(from: range.lowerBound, to: range.upperBound) < range.upperBound
    }

    func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "comparison outside the bytes")
        return unsafe withUnsafeBytes { raw in
            for index in 0..<range.count {
                let byte = unsafe raw[range.lowerBound &+ index]
                if unsafe byte.asciiLowercased != lowercase.utf8Start[index] { return false }
            }
            return true
        }
    }
}
