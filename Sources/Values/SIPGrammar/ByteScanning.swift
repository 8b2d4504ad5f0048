import Bytes

extension UInt8 {
    /// Whether the byte is a space or a tab.
    @inlinable package var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

    /// Whether the byte is white space of a folded line: a space, a tab, a CR or an LF.
    @inlinable package var isLinearSpace: Bool { self <= UInt8(ascii: " ") && 0x1_0000_2600 &>> UInt64(self) & 1 != 0 }

    /// Whether the byte can be in a token of RFC 3261: letters, digits and `-.!%*_+`'~`.
    @inlinable package var isToken: Bool { isIn(0x03ff_6ca2_0000_0000, 0x47ff_ffff_87ff_fffe) }

    /// Whether the byte can be in a host name or an IPv4 address. An underscore is allowed, because some networks use
    /// it in host names, although RFC 3261's grammar forbids it.
    @inlinable package var isHostByte: Bool { isIn(0x03ff_6000_0000_0000, 0x07ff_fffe_87ff_fffe) }

    /// Whether RFC 3261's grammar allows the byte unescaped in a user part, except `;` and `?`.
    @inlinable package var isPlainUserByte: Bool { isIn(0x23ff_ffd2_0000_0000, 0x47ff_fffe_87ff_fffe) }

    /// Whether the byte can occur in a URI between angle brackets.
    @inlinable package var mayStandInURI: Bool {
        self > 63 ? self != 0x7f : 0xaffffffa_00000000 &>> UInt64(self) & 1 != 0
    }

    /// Whether the given set of ASCII bytes contains the byte. The first word has a bit for each byte below 64, and the
    /// second for each byte from 64 to 127.
    @inlinable
    func isIn(_ below64: UInt64, _ below128: UInt64) -> Bool {
        (self < 64 ? below64 : self < 128 ? below128 : 0) &>> UInt64(self & 63) & 1 != 0
    }
}

extension Span<UInt8> {
    /// The index of the first control byte (below 0x20, or 0x7F) from `start` on; `end` if none follows.
    package func nextControl(from start: Int, to end: Int) -> Int {
        let (space, delete) = (SIMD16<UInt8>(repeating: 0x20), SIMD16<UInt8>(repeating: 0x7f))
        return firstPlace(in: start..<end) { ($0 .< space) .| ($0 .== delete) }
    }

    /// The index of the first byte from `start` on that cannot be in a host name (``Swift/UInt8/isHostByte``), or
    /// `end`.
    package func hostEnd(from start: Int, to end: Int) -> Int {
        // The forbidden bytes are tested, because they form fewer ranges than the allowed bytes.
        firstPlace(in: start..<end) { block in
            block.marks(upTo: ",") .| block.marks(of: "/") .| block.marks(from: ":", upTo: "@")
                .| block.marks(from: "[", upTo: "^") .| block.marks(of: "`") .| block.marks(from: "{", upTo: "\u{ff}")
        }
    }

    /// The index after the closing quote of a quoted string, from after its opening quote on; `nil` without a closing
    /// quote.
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

    /// Whether the range contains tabs or folds, which libosip2 does not accept everywhere.
    package func hasOddBlanks(_ range: Range<Int>) -> Bool {
        nextControl(from: range.lowerBound, to: range.upperBound) < range.upperBound
    }

    /// The index of the first byte from `start` on that is not white space, or `end`.
    @inlinable
    package func skipSpace(from start: Int, to end: Int) -> Int {
        var index = start
        while index < end, self[index].isLinearSpace { index += 1 }
        return index
    }

    /// The range without white space and folds at its start and end.
    @inlinable
    package func trimmed(_ range: Range<Int>) -> Range<Int> {
        let start = skipSpace(from: range.lowerBound, to: range.upperBound)
        var end = range.upperBound
        while start < end, self[end - 1].isLinearSpace { end -= 1 }
        return start..<end
    }
}
