import Addressing
import Timekeeping

/// Reads the PROXY header with which a load balancer begins a connection. The bytes after the header stay in the
/// socket, because they belong to the peer.
///
/// The bytes of the header are taken from the socket as they arrive. If bytes of the header stayed in the socket, it
/// would be ready all the time, and events of a lower priority would never be handled.
///
/// Releasing the object ends the wait without a callback.
final class ProxyHeaderWait {
    enum End: Hashable {
        /// The connection began with other bytes than a PROXY header, or sent no header in time.
        case none
        /// The connection ended without sending a byte, as health checks of load balancers do.
        case nothing
        /// The PROXY header arrived. The endpoint is the peer that it names; `nil` if the load balancer connected on
        /// its own behalf.
        case header(Endpoint?)
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let done: (End) -> Void
    private var timer: LoopTimer?
    private var watch: FileWatch?
    /// The bytes of the header that have arrived so far.
    private var bytes: [UInt8] = []

    /// Waits for the PROXY header on a socket, which must exist longer than this object. `done` is called once, on the
    /// loop.
    ///
    /// - Throws: if the system lacks the resources to wait.
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
            // The optimiser requires that a local variable owns the memory of the span.
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

    /// Takes bytes from the socket that were only looked at before.
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
