extension Span<UInt8> {
    /// The first such byte in `range`; looks at eight bytes at a time.
    package func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
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

    /// Whether there is an ASCII letter in upper case.
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

    /// Whether the bytes in `range` are that lower-case ASCII text, their letters in either case.
    package func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "comparison outside the bytes")
        return unsafe withUnsafeBytes { raw in
            var left = range.lowerBound
            var right = unsafe UnsafeRawPointer(lowercase.utf8Start)
            while left + 8 <= range.upperBound {
                let word = unsafe raw.loadUnaligned(fromByteOffset: left, as: UInt64.self)
                let wanted = unsafe right.loadUnaligned(as: UInt64.self)
                if word != wanted, word.asciiLowercased != wanted { return false }
                left += 8
                unsafe right += 8
            }
            while left < range.upperBound {
                let wanted = unsafe right.load(as: UInt8.self)
                if unsafe raw[left].asciiLowercased != wanted { return false }
                left += 1
                unsafe right += 1
            }
            return true
        }
    }
}

extension UInt64 {
    /// Eight bytes with their ASCII letters in lower case.
    fileprivate var asciiLowercased: UInt64 {
        let one: UInt64 = 0x0101_0101_0101_0101
        let low = self & (one &* 0x7f)
        // The highest bit of a byte is set from "A" on, and from behind "Z" on.
        let fromA = low &+ one &* (0x80 - 0x41)
        let behindZ = low &+ one &* (0x80 - 0x5b)
        return self | (~self & (fromA ^ behindZ) & (one &* 0x80)) &>> 2
    }
}
