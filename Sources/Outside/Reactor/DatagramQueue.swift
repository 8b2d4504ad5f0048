import Addressing
import CEvent
import Glibc

/// Outgoing datagrams that wait to be sent. The queue copies datagrams into one block of memory, and sends them in
/// batches with one system call each.
@safe
final class DatagramQueue {
    /// The bytes of memory for each datagram that the queue can hold.
    private static let bytesEach = 1024

    private let capacity: Int
    private let byteCapacity: Int
    private let bytes: UnsafeMutableRawPointer
    private let addresses: UnsafeMutableRawPointer
    private let vectors: UnsafeMutablePointer<iovec>
    private let messages: UnsafeMutablePointer<batch_message>
    private var used = 0
    /// The index of the first unsent datagram; `end` is the index after the last datagram.
    private var first = 0
    private var end = 0

    init(capacity: Int) {
        self.capacity = capacity
        // The queue has room for at least one datagram of the maximum length.
        byteCapacity = max(capacity * Self.bytesEach, 1 << 16)
        unsafe bytes = .allocate(byteCount: byteCapacity, alignment: 64)
        unsafe addresses = .allocate(byteCount: SocketAddress.slotSize * capacity, alignment: 8)
        unsafe vectors = .allocate(capacity: capacity)
        unsafe messages = .allocate(capacity: capacity)
        unsafe vectors.initialize(repeating: iovec(), count: capacity)
        unsafe messages.initialize(repeating: batch_message(), count: capacity)
    }

    deinit {
        unsafe messages.deallocate()
        unsafe vectors.deallocate()
        unsafe addresses.deallocate()
        unsafe bytes.deallocate()
    }

    var isEmpty: Bool { first == end }

    /// Copies a datagram into the queue; returns `false` if the queue is full.
    func append(_ datagram: Span<UInt8>, to target: Endpoint) -> Bool {
        guard end < capacity, datagram.count <= byteCapacity - used else { return false }
        let start = unsafe bytes + used
        unsafe datagram.withUnsafeBytes { source in
            unsafe UnsafeMutableRawBufferPointer(start: start, count: source.count).copyMemory(from: source)
        }
        let address = unsafe addresses + SocketAddress.slotSize * end
        let length = unsafe SocketAddress.store(target, in: address)
        unsafe vectors[end] = iovec(iov_base: start, iov_len: datagram.count)
        unsafe messages[end].header = msghdr(
            msg_name: address, msg_namelen: length, msg_iov: vectors + end, msg_iovlen: 1, msg_control: nil,
            msg_controllen: 0, msg_flags: 0)
        end += 1
        used += datagram.count
        return true
    }

    enum Progress {
        case done
        /// The socket accepts no more datagrams at present.
        case blocked
    }

    /// Sends the queued datagrams until the kernel accepts no more. A datagram that the kernel refuses is skipped and
    /// counted.
    func flush(to descriptor: Int32, counters: inout DatagramCounters) -> Progress {
        while first < end {
            let count = min(end - first, DatagramBatch.capacity)
            do {
                guard let sent = try unsafe System.send(descriptor, messages + first, count: count) else {
                    return .blocked
                }
                counters.sent += UInt64(sent)
                first += sent
            } catch {
                // The error concerns the first datagram: sendmmsg returns an error only if it has sent no datagram.
                counters.sendFailures += 1
                first += 1
            }
        }
        first = 0
        end = 0
        used = 0
        return .done
    }
}
