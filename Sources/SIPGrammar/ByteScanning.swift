import Bytes

extension UInt8 {
    /// Space or tab.
    @inlinable package var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

    /// Space, tab, or part of a fold.
    @inlinable package var isLinearSpace: Bool { self <= UInt8(ascii: " ") && 0x1_0000_2600 &>> UInt64(self) & 1 != 0 }

    /// A byte of an RFC 3261 token: letters, digits and `-.!%*_+`'~`.
    @inlinable package var isToken: Bool { isIn(0x03ff_6ca2_0000_0000, 0x47ff_ffff_87ff_fffe) }

    /// A byte of a host name or an IPv4 address. Names with `_` break RFC 3261's grammar and are in use.
    @inlinable package var isHostByte: Bool { isIn(0x03ff_6000_0000_0000, 0x07ff_fffe_87ff_fffe) }

    /// A byte that a user part may have by RFC 3261's grammar, escapes, `;` and `?` aside.
    @inlinable package var isPlainUserByte: Bool { isIn(0x23ff_ffd2_0000_0000, 0x47ff_fffe_87ff_fffe) }

    /// What may stand between angle brackets.
    @inlinable package var mayStandInURI: Bool {
        self > 63 ? self != 0x7f : 0xaffffffa_00000000 &>> UInt64(self) & 1 != 0
    }

    /// Whether the bit of this byte is set: in the first word those below 64, in the second those from 64 to 127.
    @inlinable
    func isIn(_ below64: UInt64, _ below128: UInt64) -> Bool {
        (self < 64 ? below64 : self < 128 ? below128 : 0) &>> UInt64(self & 63) & 1 != 0
    }
}

/// A byte below 64 as part of a set for ``Span/next(_:from:to:)``; folded into a constant, which a loop would not be.
@inline(__always)
package func bit(_ byte: UInt8) -> UInt64 { 1 &<< UInt64(byte) }

extension Span<UInt8> {
    /// The next control byte (below 0x20, or 0x7F) at or after `start`, or `end`; looks at eight bytes at a time.
    package func nextControl(from start: Int, to end: Int) -> Int {
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

    /// The next byte below 64 at or after `start` whose bit is set, or `end`.
    package func next(_ below64: UInt64, from start: Int, to end: Int) -> Int {
        precondition(start >= 0 && end <= count, "scan outside the bytes")
        var index = start
        unsafe withUnsafeBytes { raw in
            while index < end {
                let byte = unsafe raw[index]
                if byte < 64, below64 &>> UInt64(byte) & 1 != 0 { return }
                index += 1
            }
        }
        return index
    }

    /// The place behind the closing quote of a quoted string whose opening quote stands before `start`.
    package func quoteEnd(from start: Int, to end: Int) -> Int? {
        var index = start
        while index < end, let quote = firstIndex(of: UInt8(ascii: "\""), in: index..<end) {
            guard let escape = firstIndex(of: UInt8(ascii: "\\"), in: index..<quote) else { return quote + 1 }
            index = escape + 2
        }
        return nil
    }

    /// Whether there are tabs or folds, white space that libosip2 does not know everywhere.
    package func hasOddBlanks(_ range: Range<Int>) -> Bool {
        nextControl(from: range.lowerBound, to: range.upperBound) < range.upperBound
    }

    /// The first place at or after `start` without white space, or `end`.
    @inlinable
    package func skipSpace(from start: Int, to end: Int) -> Int {
        var index = start
        while index < end, self[index].isLinearSpace { index += 1 }
        return index
    }

    /// `range` without white space and folds at both ends.
    @inlinable
    package func trimmed(_ range: Range<Int>) -> Range<Int> {
        let start = skipSpace(from: range.lowerBound, to: range.upperBound)
        var end = range.upperBound
        while start < end, self[end - 1].isLinearSpace { end -= 1 }
        return start..<end
    }
}
