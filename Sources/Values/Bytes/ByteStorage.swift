/// The block of memory that all slices of one message share, allocated with a reference count. After the message reader
/// has written the storage, it never changes.
///
/// All unsafe code of the SIP grammar is in ``ByteStorage`` and ``ByteString``, which check all ranges.
///
/// - The storage is `@unchecked Sendable`, because it never changes after the parser has published it.
@safe @usableFromInline
package struct ByteStorage: @unchecked Sendable {
    /// The memory, with the number of bytes in its header.
    @usableFromInline let buffer: ManagedBuffer<Int, UInt8>

    private init(capacity: Int) { buffer = .create(minimumCapacity: capacity) { _ in capacity } }

    package static let empty = ByteStorage(capacity: 0)

    /// Allocates storage for a number of bytes, with undefined contents.
    package static func make(capacity: Int) -> ByteStorage { ByteStorage(capacity: capacity) }

    // The number of bytes, read through a pointer, because the property `header` would check for exclusive access each
    // time.
    @inlinable package var capacityInBytes: Int {
        unsafe buffer.withUnsafeMutablePointerToHeader { unsafe $0.pointee }
    }

    /// Copies bytes to the front of the storage. Precondition: no byte string refers to the storage yet.
    package func fill(from bytes: Span<UInt8>) {
        precondition(bytes.count <= capacityInBytes, "more bytes than the storage has room for")
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let start = source.baseAddress else { return }
            unsafe baseAddress.update(from: start, count: source.count)
        }
    }

    /// Reads a value that ``store(_:at:)`` has stored among the bytes.
    @unsafe @inlinable
    package func value<Value: BitwiseCopyable>(_ type: Value.Type, at place: Int) -> Value {
        unsafe UnsafeRawPointer(baseAddress + place).loadUnaligned(as: type)
    }

    /// Stores a value of fixed size among the bytes of the storage. Precondition: no byte string refers to the storage
    /// yet.
    package func store<Value: BitwiseCopyable>(_ value: Value, at place: Int) {
        precondition(place >= 0 && place <= capacityInBytes - MemoryLayout<Value>.size, "a value outside its storage")
        unsafe UnsafeMutableRawPointer(baseAddress + place).storeBytes(of: value, as: Value.self)
    }

    /// The raw memory of the storage, for a C parser that allocates in it, valid while the storage is retained.
    @unsafe @inlinable
    package var baseAddress: UnsafeMutablePointer<UInt8> {
        unsafe buffer.withUnsafeMutablePointerToElements { unsafe $0 }
    }

    @unsafe @inlinable
    package func byte(at index: Int) -> UInt8 { unsafe baseAddress[index] }

    @unsafe @inlinable
    package func withSpan<Result>(start: Int, count: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        unsafe buffer.withUnsafeMutablePointerToElements { base in
            body(unsafe Span(_unsafeStart: base + start, count: count))
        }
    }
}

/// Creates several byte strings that share one piece of memory.
@usableFromInline
package struct ByteStringWriter: ~Copyable {
    @usableFromInline var storage: ByteStorage
    @usableFromInline var start = 0
    @usableFromInline var end = 0

    /// Allocates the shared memory.
    ///
    /// - Parameter capacity: the number of bytes for all strings together.
    package init(capacity: Int) { storage = .make(capacity: capacity) }

    /// The length of the unfinished string in bytes.
    @inlinable package var count: Int { end - start }

    @inlinable
    package mutating func append(_ bytes: Span<UInt8>) {
        precondition(bytes.count <= storage.capacityInBytes - end, "more bytes than there is room for")
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let first = source.baseAddress else { return }
            unsafe (storage.baseAddress + end).update(from: first, count: source.count)
        }
        end += bytes.count
    }

    /// Copies a string into the shared memory, and returns the copy.
    package mutating func string(_ text: ByteString) -> ByteString { text.withSpan { string($0) } }

    /// Returns all bytes that were appended since the last finished string.
    package mutating func finish() -> ByteString {
        defer { start = end }
        return ByteString(storage: storage, start: start, count: end - start)
    }

    /// Copies bytes into the shared memory, or into memory of their own if there is no room.
    package mutating func string(_ bytes: Span<UInt8>) -> ByteString {
        if bytes.count > storage.capacityInBytes - end {
            storage = .make(capacity: max(storage.capacityInBytes, bytes.count))
            (start, end) = (0, 0)
        }
        append(bytes)
        return finish()
    }
}
