extension Span<UInt8> {
    /// The index of the first byte in `range` for which `matches` is true, or the end of the range.
    ///
    /// The closure `matches` examines sixteen bytes at a time, which may include bytes after the range. After the last
    /// byte, the examined bytes are zeros. Results of `matches` for bytes outside the range are ignored.
    @inlinable @inline(__always)
    package func firstPlace(
        in range: Range<Int>, where matches: (SIMD16<UInt8>) -> SIMDMask<SIMD16<Int8>>
    ) -> Int {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "search outside the bytes")
        return unsafe withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return range.upperBound }
            var index = range.lowerBound
            // At every index before `end`, sixteen bytes can be loaded in one step.
            let end = Swift.min(range.upperBound, raw.count &- 15)
            while index < end {
                let block = unsafe base.loadUnaligned(fromByteOffset: index, as: SIMD16<UInt8>.self)
                let marks = unsafe unsafeBitCast(matches(block), to: SIMD2<UInt64>.self)
                if marks[0] != 0 { return Swift.min(index &+ marks[0].trailingZeroBitCount &>> 3, range.upperBound) }
                if marks[1] != 0 {
                    return Swift.min(index &+ 8 &+ marks[1].trailingZeroBitCount &>> 3, range.upperBound)
                }
                index &+= 16
            }
            guard index < range.upperBound else { return range.upperBound }
            let marks = unsafe unsafeBitCast(matches(lastBlock(raw, from: index)), to: SIMD2<UInt64>.self)
            let place = marks[0] != 0 ? marks[0].trailingZeroBitCount : 64 &+ marks[1].trailingZeroBitCount
            return Swift.min(index &+ place &>> 3, range.upperBound)
        }
    }

    /// The index of the first byte in `range` that equals `byte`, if any.
    package func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
        let wanted = SIMD16<UInt8>(repeating: byte)
        let place = firstPlace(in: range) { $0 .== wanted }
        return place < range.upperBound ? place : nil
    }

    /// The index of the first byte in `range` that equals one of two bytes, or the end of the range.
    package func firstPlace(of first: UInt8, or second: UInt8, in range: Range<Int>) -> Int {
        let (first, second) = (SIMD16<UInt8>(repeating: first), SIMD16<UInt8>(repeating: second))
        return firstPlace(in: range) { ($0 .== first) .| ($0 .== second) }
    }

    /// The index of the first byte in `range` that equals one of three bytes, or the end of the range.
    package func firstPlace(of first: UInt8, _ second: UInt8, or third: UInt8, in range: Range<Int>) -> Int {
        let (first, second) = (SIMD16<UInt8>(repeating: first), SIMD16<UInt8>(repeating: second))
        let third = SIMD16<UInt8>(repeating: third)
        return firstPlace(in: range) { ($0 .== first) .| ($0 .== second) .| ($0 .== third) }
    }

    /// Whether the bytes contain an upper-case ASCII letter.
    var hasUppercase: Bool {
        unsafe withUnsafeBytes { raw in
            var index = 0
            while index + 8 <= raw.count {
                let word = unsafe raw.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if word != word.asciiLowercased { return true }
                index += 8
            }
            while index < raw.count {
                if unsafe raw[index] != raw[index].asciiLowercased { return true }
                index += 1
            }
            return false
        }
    }

    /// Whether the bytes in `range` equal the ASCII text, in upper or lower case; `lowercase` must be in lower case.
    package func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "comparison outside the bytes")
        return unsafe withUnsafeBytes { raw in
            guard let left = unsafe raw.baseAddress.map({ unsafe $0 + range.lowerBound }) else { return true }
            let right = unsafe UnsafeRawPointer(lowercase.utf8Start)
            let count = range.count
            guard count >= 8 else { return unsafe left.word(count).asciiLowercased == right.word(count) }
            var place = 0
            while true {
                let word = unsafe left.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                let wanted = unsafe right.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                if word != wanted, word.asciiLowercased != wanted { return false }
                guard place &+ 8 < count else { return true }
                // The last step compares the last eight bytes, perhaps some of them again.
                place = Swift.min(place &+ 8, count &- 8)
            }
        }
    }
}

extension SIMD16<UInt8> {
    /// A mask of the bytes that equal the ASCII character.
    @inlinable @inline(__always)
    package func marks(of character: Unicode.Scalar) -> SIMDMask<SIMD16<Int8>> {
        self .== SIMD16(repeating: UInt8(ascii: character))
    }

    /// A mask of the bytes from `first` to `last`, both included.
    @inlinable @inline(__always)
    package func marks(from first: Unicode.Scalar, upTo last: Unicode.Scalar) -> SIMDMask<SIMD16<Int8>> {
        (self .>= SIMD16(repeating: UInt8(truncatingIfNeeded: first.value)))
            .& (self .<= SIMD16(repeating: UInt8(truncatingIfNeeded: last.value)))
    }

    /// A mask of the bytes that are equal to the ASCII character or lower.
    @inlinable @inline(__always)
    package func marks(upTo character: Unicode.Scalar) -> SIMDMask<SIMD16<Int8>> {
        self .<= SIMD16(repeating: UInt8(ascii: character))
    }
}

extension Span<UInt8> {
    /// The first eight bytes of the range, in lower case and padded with zeros, as an integer whose lowest byte is the
    /// first.
    @inlinable
    package func lowercasedWord(_ range: Range<Int>) -> UInt64 {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "word outside the bytes")
        return unsafe withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return 0 }
            return unsafe (base + range.lowerBound).word(Swift.min(range.count, 8)).asciiLowercased
        }
    }

    /// The eight bytes from the index on, as an integer whose lowest byte is the first.
    @inlinable @inline(__always)
    package func word(at place: Int) -> UInt64 {
        precondition(place >= 0 && place <= count &- 8, "word outside the bytes")
        return unsafe withUnsafeBytes { raw in
            unsafe UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
    }
}

extension Span<UInt8> {
    /// Calls `body` for each eight bytes of the text, as integers whose lowest byte is the first. The last integer of a
    /// text is padded with zeros.
    @inlinable @inline(__always)
    package func forEachWord(_ body: (UInt64) -> Void) {
        unsafe withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return }
            var index = 0
            while index &+ 8 <= raw.count {
                body(unsafe UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
                index &+= 8
            }
            if index < raw.count { body(unsafe (base + index).word(raw.count &- index)) }
        }
    }
}

extension StaticString {
    /// The first eight bytes of the text as an integer. The compiler computes the integer.
    @inlinable @inline(__always)
    package var word: UInt64 { unsafe UnsafeRawPointer(utf8Start).word(Swift.min(utf8CodeUnitCount, 8)) }

    /// The last eight bytes of the text as an integer; if the text is shorter, all its bytes. The compiler computes the
    /// integer.
    @inlinable @inline(__always)
    package var lastWord: UInt64 {
        let count = Swift.min(utf8CodeUnitCount, 8)
        return unsafe (UnsafeRawPointer(utf8Start) + (utf8CodeUnitCount &- count)).word(count)
    }
}

/// The bytes from `start` to the end, padded with zeros to sixteen bytes. Precondition: fewer than sixteen bytes are
/// left after `start`.
@inline(never) @usableFromInline
func lastBlock(_ raw: UnsafeRawBufferPointer, from start: Int) -> SIMD16<UInt8> {
    let missing = start &+ 16 &- raw.count
    if raw.count >= 16 {
        let end = unsafe raw.loadUnaligned(fromByteOffset: raw.count &- 16, as: UInt128.self)
        return unsafe unsafeBitCast(UInt128(littleEndian: end) &>> UInt128(8 &* missing), to: SIMD16<UInt8>.self)
    }
    guard let base = unsafe raw.baseAddress.map({ unsafe $0 + start }) else { return SIMD16(repeating: 0) }
    let count = raw.count &- start
    let first = unsafe base.word(Swift.min(count, 8))
    let second = unsafe count > 8 ? (base + 8).word(count &- 8) : 0
    return unsafe unsafeBitCast(SIMD2(first, second), to: SIMD16<UInt8>.self)
}

extension UnsafeRawPointer {
    /// The first `count` bytes, at most eight, as an integer whose lowest byte is the first.
    @inlinable @inline(__always)
    func word(_ count: Int) -> UInt64 {
        switch count {
        case 8: return unsafe UInt64(littleEndian: loadUnaligned(as: UInt64.self))
        case 4...7:
            let low = unsafe UInt64(UInt32(littleEndian: loadUnaligned(as: UInt32.self)))
            let high = unsafe UInt64(UInt32(littleEndian: loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self)))
            return low | high &<< UInt64(8 &* (count &- 4))
        case 2...3:
            let low = unsafe UInt64(UInt16(littleEndian: loadUnaligned(as: UInt16.self)))
            let high = unsafe UInt64(load(fromByteOffset: count &- 1, as: UInt8.self))
            return low | high &<< UInt64(8 &* (count &- 1))
        case 1: return unsafe UInt64(load(as: UInt8.self))
        default: return 0
        }
    }
}

extension UInt64 {
    /// The number of bytes, from the lowest, before the first that equals `byte`; 8 if none does.
    @inlinable @inline(__always)
    package func count(before byte: UInt8) -> Int {
        let one: UInt64 = 0x0101_0101_0101_0101
        let found = self ^ (one &* UInt64(byte))
        // The lowest set bit of the result is the highest bit of the first zero byte.
        return ((found &- one) & ~found & (one &* 0x80)).trailingZeroBitCount &>> 3
    }

    /// The integer with ASCII letters in lower case.
    @inlinable
    package var asciiLowercased: UInt64 {
        let one: UInt64 = 0x0101_0101_0101_0101
        let low = self & (one &* 0x7f)
        // In `fromA`, the highest bit of a byte is set for "A" and later characters. In `behindZ`, the highest bit of a
        // byte is set for characters after "Z".
        let fromA = low &+ one &* (0x80 - 0x41)
        let behindZ = low &+ one &* (0x80 - 0x5b)
        return self | (~self & (fromA ^ behindZ) & (one &* 0x80)) &>> 2
    }
}
