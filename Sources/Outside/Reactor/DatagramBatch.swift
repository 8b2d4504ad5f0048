package import Addressing
import CEvent
import Glibc

/// The datagrams that one system call has received together.
///
/// A batch is valid only while its handler runs: the handler copies bytes that it keeps.
///
/// - The type is `@unchecked Sendable`, because only the loop's thread fills and reads it.
@safe
package final class DatagramBatch: @unchecked Sendable {
    /// The maximum number of datagrams in one batch.
    package static let capacity = 16

    private let slot: Int
    private let stride: Int
    private let bytes: UnsafeMutableRawPointer
    private let addresses: UnsafeMutableRawPointer
    private let vectors: UnsafeMutablePointer<iovec>
    private let messages: UnsafeMutablePointer<batch_message>
    private(set) package var count = 0
    /// Whether the batch has the maximum number of datagrams, so that more may wait in the kernel.
    package var isFull: Bool { count == Self.capacity }

    /// Allocates the memory of the batch.
    ///
    /// - Parameter slot: the maximum size of a datagram in bytes; a longer datagram is cut and marked as cut.
    init(slot: Int) {
        self.slot = slot
        // If the distance between two slots were a power of two, the slots would compete for the same lines of the
        // processor's cache. The unused end of a slot needs no memory, because the kernel provides only pages that are
        // written.
        stride = (slot + 1151) & ~63
        unsafe bytes = .allocate(byteCount: stride * Self.capacity, alignment: 64)
        unsafe addresses = .allocate(byteCount: SocketAddress.slotSize * Self.capacity, alignment: 8)
        unsafe vectors = .allocate(capacity: Self.capacity)
        unsafe messages = .allocate(capacity: Self.capacity)
        for index in 0..<Self.capacity {
            unsafe vectors.advanced(by: index).initialize(
                to: iovec(iov_base: bytes + stride * index, iov_len: slot))
            let header = unsafe msghdr(
                msg_name: addresses + SocketAddress.slotSize * index, msg_namelen: socklen_t(SocketAddress.slotSize),
                msg_iov: vectors + index, msg_iovlen: 1, msg_control: nil, msg_controllen: 0, msg_flags: 0)
            unsafe messages.advanced(by: index).initialize(to: batch_message(header: header, length: 0))
        }
    }

    deinit {
        unsafe messages.deallocate()
        unsafe vectors.deallocate()
        unsafe addresses.deallocate()
        unsafe bytes.deallocate()
    }

    /// Replaces the contents of the batch by the datagrams that wait on the socket.
    func receive(from descriptor: Int32) throws(SystemError) {
        for index in 0..<count {
            unsafe messages[index].header.msg_namelen = socklen_t(SocketAddress.slotSize)
            unsafe messages[index].header.msg_flags = 0
        }
        count = 0
        count = try unsafe System.receive(descriptor, messages, count: Self.capacity) ?? 0
    }

    /// The address of the datagram's sender.
    package func source(at index: Int) -> Endpoint {
        precondition(index >= 0 && index < count, "no such datagram")
        let length = unsafe messages[index].header.msg_namelen
        return unsafe SocketAddress.load(addresses + SocketAddress.slotSize * index, length: length)
            ?? Endpoint(.anyV4, 0)
    }

    /// Calls `body` with the bytes of the datagram.
    package func withBytes<Result>(at index: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        precondition(index >= 0 && index < count, "no such datagram")
        let length = unsafe min(Int(messages[index].length), slot)
        let start = unsafe (bytes + stride * index).assumingMemoryBound(to: UInt8.self)
        return body(unsafe Span(_unsafeStart: start, count: length))
    }
}
