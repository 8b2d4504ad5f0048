import Addressing
import Timekeeping

/// Reads the PROXY header with which a load balancer begins a connection. Bytes after the PROXY header stay in the
/// socket for the peer's stream.
///
/// An incomplete header is removed from the socket immediately, because a socket with unread input would block events
/// of lower priority.
///
/// The release of the ``ProxyHeaderWait`` ends the wait without a callback.
final class ProxyHeaderWait {
    enum End: Hashable {
        /// The first bytes were no PROXY header, or no complete header arrived in time.
        case none
        /// The connection ended before its first byte, as in health checks of load balancers.
        case nothing
        /// The PROXY header arrived. The endpoint is the peer that the header names; `nil` if the load balancer
        /// connected for itself.
        case header(Endpoint?)
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let done: (End) -> Void
    private var timer: LoopTimer?
    private var watch: FileWatch?
    /// The bytes of the PROXY header that have arrived so far.
    private var bytes: [UInt8] = []

    /// Waits for the PROXY header on a socket. The socket must stay open until the wait ends. The loop calls `done`
    /// once.
    ///
    /// - Throws: an error if the system lacks the resources to wait.
    init(
        _ descriptor: Int32, on loop: EventLoop, turn: LoopTurn, until deadline: Instant, done: @escaping (End) -> Void
    ) throws(SystemError) {
        self.descriptor = descriptor
        self.loop = loop
        self.done = done
        let timer = try LoopTimer(on: loop, turn: turn) { [weak self] in self?.end(.none) }
        timer.arm(at: deadline)
        self.timer = timer
        let watch = try FileWatch(descriptor: descriptor, on: loop, turn: turn, until: timer) { [weak self] _ in
            self?.arrived()
        }
        try watch.watch(for: .read)
        self.watch = watch
    }

    private func arrived() {
        do throws(SystemError) {
            let had = bytes.count
            let room = unsafe loop.streams.room(upTo: ProxyHeader.longest - had)
            guard let count = unsafe try System.peek(descriptor, into: room) else { return }
            guard count > 0 else { return end(had == 0 ? .nothing : .none) }
            unsafe bytes.append(contentsOf: room[..<count])
            // The bytes are copied, because a span needs a local variable that owns its memory.
            let header = bytes
            switch ProxyHeader(header.span) {
            case .incomplete: try take(count)
            case .invalid: end(.none)
            case .header(let length, let source):
                try take(length - had)
                end(.header(source))
            }
        } catch {
            end(.none)
        }
    }

    /// Removes bytes from the socket that were already read by peeking.
    private func take(_ count: Int) throws(SystemError) {
        let room = unsafe loop.streams.room(upTo: count)
        guard unsafe try System.receive(descriptor, into: room) == count else {
            throw SystemError(call: "recv", code: SystemError.protocolError)
        }
    }

    private func end(_ end: End) {
        watch = nil
        timer = nil
        done(end)
    }
}
