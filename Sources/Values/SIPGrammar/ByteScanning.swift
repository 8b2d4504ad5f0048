import Bytes

extension UInt8 {
    /// Space or tab.
    @inlinable package var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

    /// Space, tab, or part of a fold.
    @inlinable package var isLinearSpace: Bool { self <= UInt8(ascii: " ") && 0x1_0000_2600 &>> UInt64(self) & 1 != 0 }

    /// A byte of an RFC 3261 token: letters, digits and `-.!%*_+`'~`.
    @inlinable package var isToken: Bool { isIn(0x03ff_6ca2_0000_0000, 0x47ff_ffff_87ff_fffe) }

    /// A byte of a host name or an IPv4 address. Names with `_` violate RFC 3261's grammar but are in use.
    @inlinable package var isHostByte: Bool { isIn(0x03ff_6000_0000_0000, 0x07ff_fffe_87ff_fffe) }

    /// A byte that RFC 3261's grammar allows in a user part, except escapes, `;` and `?`.
    @inlinable package var isPlainUserByte: Bool { isIn(0x23ff_ffd2_0000_0000, 0x47ff_fffe_87ff_fffe) }

    /// A byte that is allowed between angle brackets.
    @inlinable package var mayStandInURI: Bool {
        self > 63 ? self != 0x7f : 0xaffffffa_00000000 &>> UInt64(self) & 1 != 0
    }

    /// Whether the bit of this byte is set: in the first word for bytes below 64, in the second for 64 to 127.
    @inlinable
    func isIn(_ below64: UInt64, _ below128: UInt64) -> Bool {
        (self < 64 ? below64 : self < 128 ? below128 : 0) &>> UInt64(self & 63) & 1 != 0
    }
}

extension Span<UInt8> {
    /// The next control byte (below 0x20, or 0x7F) at or after `start`, or `end`.
    package func nextControl(from start: Int, to end: Int) -> Int {
        let (space, delete) = (SIMD16<UInt8>(repeating: 0x20), SIMD16<UInt8>(repeating: 0x7f))
        return firstPlace(in: start..<end) { ($0 .< space) .| ($0 .== delete) }
    }

    /// The first place at or after `start` whose byte is not part of a host name, or `end`; see
    /// ``Swift/UInt8/isHostByte``.
    package func hostEnd(from start: Int, to end: Int) -> Int {
        // Between those bytes are few others, which are named here.
        firstPlace(in: start..<end) { block in
            block.marks(upTo: ",") .| block.marks(of: "/") .| block.marks(from: ":", upTo: "@")
                .| block.marks(from: "[", upTo: "^") .| block.marks(of: "`") .| block.marks(from: "{", upTo: "\u{ff}")
        }
    }

    /// The place after the closing quote of a quoted string whose opening quote is before `start`.
    package func quoteEnd(from start: Int, to end: Int) -> Int? {
        var index = start
        while index < end {
            index = firstPlace(of: UInt8(ascii: "\""), or: UInt8(ascii: "\\"), in: index..<end)
            guard index < end else { return nil }
            if self[index] == UInt8(ascii: "\"") { return index + 1 }
            index += 2
        }
        return nil
    }

    /// Whether it contains tabs or folds, white space that libosip2 does not accept everywhere.
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
