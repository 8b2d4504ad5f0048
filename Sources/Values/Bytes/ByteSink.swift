/// A buffer of fixed size into which a message is written, piece after piece.
///
/// If a message does not fit, the sink counts the missing bytes, and the message must be written again into a larger
/// sink. An array would check at each append whether its memory is shared and must grow. The checks of an array would
/// take four times as long as copying a header field.
@safe @usableFromInline
package struct ByteSink: ~Copyable {
    @usableFromInline let base: UnsafeMutablePointer<UInt8>
    @usableFromInline let capacity: Int
    /// The number of appended bytes, including bytes that did not fit.
    @usableFromInline package private(set) var count = 0

    /// Creates a sink that writes into the memory at `base`.
    ///
    /// - Precondition: the memory exists as long as the sink.
    @unsafe
    fileprivate init(_ base: UnsafeMutablePointer<UInt8>, capacity: Int) {
        unsafe self.base = base
        self.capacity = capacity
    }

    package mutating func append(_ bytes: Span<UInt8>) {
        let end = count + bytes.count
        if end <= capacity {
            unsafe bytes.withUnsafeBufferPointer { source in
                if let first = source.baseAddress { unsafe (base + count).initialize(from: first, count: source.count) }
            }
        }
        count = end
    }

    package mutating func append(_ text: StaticString) {
        let end = count + text.utf8CodeUnitCount
        if end <= capacity { unsafe (base + count).initialize(from: text.utf8Start, count: text.utf8CodeUnitCount) }
        count = end
    }

    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { unsafe append(Span(_unsafeElements: $0)) }
    }

    package mutating func append(_ byte: UInt8) {
        if count < capacity { unsafe base[count] = byte }
        count += 1
    }

    /// Appends the lowest `count` bytes of an integer, highest byte first (network byte order).
    package mutating func append(big number: UInt64, count: Int = 8) {
        let bytes: [8 of UInt8] = .init { place in UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * place)) }
        append(bytes.span.extracting((8 - count)...))
    }

    package mutating func append(_ bytes: ByteString) { bytes.withSpan { append($0) } }

    /// Appends a part of `bytes`; `range` is relative to their start.
    package mutating func append(_ bytes: ByteString, _ range: Range<Int>) {
        bytes.withSpan { append($0.extracting(range)) }
    }

    /// Calls `body` with the appended bytes in `range`; `nil` if the sink had no room for them.
    package func withBytes<Result>(_ range: Range<Int>, _ body: (Span<UInt8>) -> Result) -> Result? {
        guard range.lowerBound >= 0, range.upperBound <= min(count, capacity) else { return nil }
        return body(unsafe Span(_unsafeStart: base + range.lowerBound, count: range.count))
    }

    /// Appends a copy of the sink's own bytes in `range`.
    package mutating func append(again range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "bytes that were not appended")
        let end = count + range.count
        if end <= capacity { unsafe (base + count).initialize(from: base + range.lowerBound, count: range.count) }
        count = end
    }

    /// Appends the decimal digits of a number.
    @inlinable
    package mutating func append(decimal value: some BinaryInteger) {
        append(digitsOf: UInt64(truncatingIfNeeded: value.magnitude), isNegative: value < 0)
    }

    @usableFromInline
    mutating func append(digitsOf number: UInt64, isNegative: Bool) {
        if isNegative { append("-") }
        var (digits, limit) = (1, 10 as UInt64)
        while number >= limit, digits < 19 {
            digits += 1
            limit *= 10
        }
        if digits == 19, number >= limit { digits = 20 }
        let end = count + digits
        if end <= capacity {
            var (place, rest) = (end, number)
            repeat {
                place -= 1
                unsafe base[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
        }
        count = end
    }
}

extension [UInt8] {
    /// Creates a byte string from the bytes that `write` appends. If the bytes exceed the capacity, `write` is called
    /// again with a larger sink.
    package init(capacity: Int, _ write: (inout ByteSink) -> Void) {
        self = []
        append(capacity: capacity, write)
    }

    /// Appends to the array the bytes that `write` appends to a sink. If the bytes exceed the capacity, `write` is
    /// called again with a larger sink.
    package mutating func append(capacity: Int, _ write: (inout ByteSink) -> Void) {
        var capacity = Swift.max(capacity, 1)
        while true {
            var size = 0
            append(addingCapacity: capacity) { room in
                unsafe room.withUnsafeMutableBufferPointer { buffer, written in
                    guard let base = buffer.baseAddress else { return }
                    var sink = unsafe ByteSink(base + written, capacity: capacity)
                    write(&sink)
                    size = sink.count
                    if size <= capacity { written += size }
                }
            }
            guard size > capacity else { return }
            capacity = size
        }
    }
}

extension ByteString {
    /// Creates an array from the bytes that `write` appends. If the bytes exceed the capacity, `write` is called again
    /// with a larger sink.
    package init(capacity: Int, _ write: (inout ByteSink) -> Void) {
        var capacity = max(capacity, 1)
        while true {
            let storage = ByteStorage.make(capacity: capacity)
            let size = withExtendedLifetime(storage) {
                var sink = unsafe ByteSink(storage.baseAddress, capacity: capacity)
                write(&sink)
                return sink.count
            }
            guard size > capacity else {
                self.init(storage: storage, start: 0, count: size)
                return
            }
            capacity = size
        }
    }
}
