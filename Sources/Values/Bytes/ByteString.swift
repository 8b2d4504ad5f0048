/// Immutable bytes as a range of shared storage; all byte strings of one message share one storage.
///
/// Header fields are no `String`, because SIP compares bytes, and each `String` would cost an allocation and a
/// validation.
///
/// A byte string that outlives its message must be a ``compacted()`` copy, because each slice keeps the whole message
/// in memory.
@usableFromInline
package struct ByteString: Sendable {
    @usableFromInline package let storage: ByteStorage
    @usableFromInline package let start: Int32
    @usableFromInline package let length: Int32

    /// Creates a slice of `storage`.
    ///
    /// - Precondition: the range is inside the part of the storage that has been written.
    @inlinable
    package init(storage: ByteStorage, start: Int, count: Int) {
        precondition(start >= 0 && count >= 0 && start + count <= storage.capacityInBytes, "slice outside its storage")
        self.storage = storage
        self.start = Int32(truncatingIfNeeded: start)
        self.length = Int32(truncatingIfNeeded: count)
    }

    package init(copying bytes: Span<UInt8>) {
        guard !bytes.isEmpty else {
            self = .empty
            return
        }
        let storage = ByteStorage.make(capacity: bytes.count)
        storage.fill(from: bytes)
        self.init(storage: storage, start: 0, count: bytes.count)
    }

    package init(_ bytes: some Sequence<UInt8>) { self.init(Array(bytes)) }

    package init(_ bytes: [UInt8]) { self.init(copying: bytes.span) }

    package init(_ text: String) { self.init(text.utf8) }

    package static let empty = ByteString(storage: .empty, start: 0, count: 0)

    @inlinable package var count: Int { Int(length) }
    @inlinable package var isEmpty: Bool { length == 0 }

    /// The byte at `index`, counted from the start of the slice.
    @inlinable
    package subscript(index: Int) -> UInt8 {
        precondition(index >= 0 && index < count, "index outside the slice")
        return unsafe storage.byte(at: Int(start) + index)
    }

    /// A part of the byte string, with the same storage.
    @inlinable
    package subscript(range: Range<Int>) -> ByteString {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "range outside the slice")
        return ByteString(storage: storage, start: Int(start) + range.lowerBound, count: range.count)
    }

    @inlinable
    package func withSpan<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        unsafe storage.withSpan(start: Int(start), count: count, body)
    }

    /// A copy with its own storage, for values that outlive their message.
    package func compacted() -> ByteString { withSpan { ByteString(copying: $0) } }

    package var array: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(self)
        return bytes
    }

    /// The bytes as text for logs and output. No decision may depend on the text of bytes, because all invalid bytes
    /// become U+FFFD.
    package var string: String { String(decoding: array, as: UTF8.self) }
}

extension ByteString: Hashable {
    @inlinable
    package static func == (left: ByteString, right: ByteString) -> Bool {
        left.withSpan { a in right.withSpan { b in a.hasSameBytes(as: b) } }
    }

    /// Hashes with the random seed of the process, because peers could otherwise send strings whose hashes collide.
    @usableFromInline
    package func hash(into hasher: inout Hasher) {
        withSpan { span in unsafe span.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
    }
}

extension ByteString: CustomStringConvertible {
    @usableFromInline package var description: String { string }
}

extension Span<UInt8> {
    /// Compares eight bytes at a time, because each refresh of a registration compares a contact of some 300 bytes. The
    /// last step of the comparison may compare some bytes again.
    @inlinable
    package func hasSameBytes(as other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return unsafe withUnsafeBytes { left in
            unsafe other.withUnsafeBytes { right in
                guard let a = left.baseAddress, let b = right.baseAddress else { return true }
                let last = left.count &- 8
                guard last >= 0 else { return unsafe a.word(left.count) == b.word(left.count) }
                var index = 0
                while index < last {
                    let (one, other) = unsafe (
                        (a + index).loadUnaligned(as: UInt64.self), (b + index).loadUnaligned(as: UInt64.self)
                    )
                    guard one == other else { return false }
                    index &+= 8
                }
                return unsafe (a + last).loadUnaligned(as: UInt64.self) == (b + last).loadUnaligned(as: UInt64.self)
            }
        }
    }
}

// MARK: Comparison and conversion of byte strings

extension ByteString {
    /// Whether the byte string equals an ASCII text, compared without a memory allocation.
    @inlinable
    package static func == (left: ByteString, right: StaticString) -> Bool {
        left.withSpan { span in
            guard span.count == right.utf8CodeUnitCount else { return false }
            for index in 0..<span.count where unsafe span[index] != right.utf8Start[index] { return false }
            return true
        }
    }

    /// Whether the byte string equals a lower-case ASCII text, in upper or lower case.
    package func equalsIgnoringCase(_ lowercase: StaticString) -> Bool {
        withSpan { $0.equalsIgnoringCase(0..<$0.count, lowercase) }
    }

    @inlinable
    package func equalsIgnoringCase(_ other: ByteString) -> Bool {
        guard length == other.length else { return false }
        return withSpan { a in
            other.withSpan { b in
                for index in 0..<a.count where a[index].asciiLowercased != b[index].asciiLowercased { return false }
                return true
            }
        }
    }

    /// Whether the bytes begin with the given ASCII prefix, in upper or lower case.
    package func hasPrefix(ignoringCase prefix: String) -> Bool {
        let prefix = prefix.utf8
        guard count >= prefix.count else { return false }
        return withSpan { span in
            for (index, byte) in prefix.enumerated() where span[index].asciiLowercased != byte.asciiLowercased {
                return false
            }
            return true
        }
    }

    package func hasPrefix(_ prefix: StaticString) -> Bool {
        count >= prefix.utf8CodeUnitCount && self[0..<prefix.utf8CodeUnitCount] == prefix
    }

    package func firstIndex(of byte: UInt8) -> Int? {
        withSpan { $0.firstIndex(of: byte, in: 0..<$0.count) }
    }

    package func lastIndex(of byte: UInt8) -> Int? {
        withSpan { span in
            for index in stride(from: span.count - 1, through: 0, by: -1) where span[index] == byte { return index }
            return nil
        }
    }

    package func contains(_ byte: UInt8) -> Bool { firstIndex(of: byte) != nil }

    @inlinable
    package func allSatisfy(_ isWanted: (UInt8) -> Bool) -> Bool {
        withSpan { span in
            for index in 0..<span.count where !isWanted(span[index]) { return false }
            return true
        }
    }

    /// Splits the bytes at each separator, including empty parts.
    package func parts(separatedBy separator: UInt8) -> [ByteString] {
        var parts: [ByteString] = []
        var rest = self
        while let end = rest.firstIndex(of: separator) {
            parts.append(rest[0..<end])
            rest = rest[end + 1..<rest.count]
        }
        parts.append(rest)
        return parts
    }

    /// The bytes with ASCII letters in lower case, in the same storage if there is nothing to change.
    package func lowercased() -> ByteString {
        withSpan { $0.hasUppercase } ? ByteString(array.map(\.asciiLowercased)) : self
    }

    /// Decodes percent encoding: each `%HH` becomes its byte, including `%00`. A `%` without two hexadecimal digits
    /// stays unchanged.
    package func percentDecoded() -> ByteString {
        guard contains(UInt8(ascii: "%")) else { return self }
        var out: [UInt8] = []
        out.reserveCapacity(count)
        var index = 0
        while index < count {
            let byte = self[index]
            if byte == UInt8(ascii: "%"), index + 2 < count, let high = self[index + 1].hexValue,
                let low = self[index + 2].hexValue
            {
                out.append(high << 4 | low)
                index += 3
            } else {
                out.append(byte)
                index += 1
            }
        }
        return ByteString(out)
    }

    /// The content of a quoted string (RFC 3261 section 25.1), with `\x` pairs decoded; other strings are unchanged.
    package func unquoted() -> ByteString {
        guard count >= 2, self[0] == UInt8(ascii: "\""), self[count - 1] == UInt8(ascii: "\"") else { return self }
        let inner = self[1..<count - 1]
        guard inner.contains(UInt8(ascii: "\\")) else { return inner }
        var out: [UInt8] = []
        var escaped = false
        for byte in inner.array {
            if !escaped, byte == UInt8(ascii: "\\") {
                escaped = true
            } else {
                out.append(byte)
                escaped = false
            }
        }
        return ByteString(out)
    }

    /// The bytes as a decimal number; `nil` if it is too large, or if a byte is no digit.
    @inlinable
    package func decimal<Number: FixedWidthInteger>(as type: Number.Type = Number.self) -> Number? {
        decimalDigits.flatMap { Number(exactly: $0) }
    }

    @usableFromInline
    var decimalDigits: UInt64? {
        guard !isEmpty else { return nil }
        return withSpan { span in
            var value: UInt64 = 0
            for index in 0..<span.count {
                let digit = span[index] &- UInt8(ascii: "0")
                guard digit <= 9 else { return nil }
                let (scaled, overflow) = value.multipliedReportingOverflow(by: 10)
                let (sum, overflowed) = scaled.addingReportingOverflow(UInt64(digit))
                guard !overflow, !overflowed else { return nil }
                value = sum
            }
            return value
        }
    }
}

extension StaticString {
    /// The byte at `index` of the text, which must be ASCII.
    @inlinable
    package func byte(at index: Int) -> UInt8 {
        precondition(index >= 0 && index < utf8CodeUnitCount, "index outside the text")
        return unsafe utf8Start[index]
    }
}

extension UInt8 {
    @inlinable package var asciiLowercased: UInt8 {
        self &- UInt8(ascii: "A") < 26 ? self | 0x20 : self
    }

    @inlinable package var isASCIIDigit: Bool { self &- UInt8(ascii: "0") < 10 }

    @inlinable package var isASCIILetter: Bool { asciiLowercased &- UInt8(ascii: "a") < 26 }

    @inlinable package var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }

    /// Whether the byte is an ASCII letter, a digit, a hyphen or an underscore.
    @inlinable package var isNameByte: Bool {
        isASCIIAlphanumeric || self == UInt8(ascii: "-") || self == UInt8(ascii: "_")
    }

    @inlinable package var hexValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

extension Array<UInt8> {
    @inlinable
    package mutating func append(_ bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    }

    /// Appends all bytes of a byte string with one copy operation.
    @inlinable
    package mutating func append(_ bytes: ByteString) {
        bytes.withSpan { span in unsafe span.withUnsafeBufferPointer { unsafe append(contentsOf: $0) } }
    }

    /// Appends a part of `bytes`; `range` is relative to their start.
    @inlinable
    package mutating func append(_ bytes: ByteString, _ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count, "range outside the slice")
        guard !range.isEmpty else { return }
        bytes.withSpan { span in
            unsafe span.withUnsafeBufferPointer { unsafe append(contentsOf: UnsafeBufferPointer(rebasing: $0[range])) }
        }
    }

    /// Appends an ASCII text of the program.
    @inlinable
    package mutating func append(_ text: StaticString) {
        unsafe append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Appends a number in decimal digits.
    @inlinable
    package mutating func append(decimal value: some BinaryInteger) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(digitsOf: UInt64(truncatingIfNeeded: value.magnitude))
    }

    @usableFromInline
    mutating func append(digitsOf number: UInt64) {
        var digits: [20 of UInt8] = .init(repeating: 0)
        var first = 20
        var rest = number
        repeat {
            first -= 1
            digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        append(digits.span.extracting(first...))
    }
}
