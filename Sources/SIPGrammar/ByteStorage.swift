/// The block of memory that slices of one message share: written while the message is read, never afterwards.
///
/// The unsafe part of the grammar stands here and in ``ByteString``; both check their ranges, so callers need not.
///
/// - `@unchecked Sendable` because nothing writes after the parser has handed the storage out.
@safe @usableFromInline
package final class ByteStorage: @unchecked Sendable {
    @usableFromInline let base: UnsafeMutablePointer<UInt8>
    @usableFromInline package let capacityInBytes: Int

    private init(capacity: Int) {
        unsafe base = .allocate(capacity: max(capacity, 1))
        capacityInBytes = capacity
    }

    deinit { unsafe base.deallocate() }

    package static let empty = ByteStorage(capacity: 0)

    /// New storage; its content is undefined until ``withMutableBytes(_:)`` has written it.
    package static func make(capacity: Int) -> ByteStorage { ByteStorage(capacity: capacity) }

    /// For the parser that fills the storage, before any slice of it exists.
    @inlinable
    package func withMutableBytes<Result>(_ body: (inout MutableSpan<UInt8>) -> Result) -> Result {
        var span = unsafe MutableSpan(_unsafeStart: base, count: capacityInBytes)
        return body(&span)
    }

    /// Copies bytes to the front of the storage, before any slice of it exists.
    package func fill(from bytes: Span<UInt8>) {
        precondition(bytes.count <= capacityInBytes, "more bytes than the storage has room for")
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let start = source.baseAddress else { return }
            unsafe base.update(from: start, count: source.count)
        }
    }

    /// The raw memory, for the module that lets a C parser allocate in it.
    @unsafe @inlinable
    package var baseAddress: UnsafeMutablePointer<UInt8> { unsafe base }

    @unsafe @inlinable
    package func byte(at index: Int) -> UInt8 { unsafe base[index] }

    @unsafe @inlinable
    package func withSpan<Result>(start: Int, count: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        body(unsafe Span(_unsafeStart: base + start, count: count))
    }
}
