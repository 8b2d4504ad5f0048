import Addressing
import Timekeeping

/// Reads the PROXY header with which a load balancer begins a connection. Bytes after the header stay in the socket,
/// because they belong to the peer.
///
/// Bytes of the header are taken from the socket immediately. If they stayed there, the socket would be ready again and
/// again, and no later turn would be served.
///
/// Releasing the object ends the wait silently.
final class ProxyHeaderWait {
    enum End: Hashable {
        /// Something else arrived, or nothing in time.
        case none
        /// The connection ended before any byte, as in health checks of balancers.
        case nothing
        /// The header arrived, with the address that it names; `nil` if the balancer speaks for itself.
        case header(Endpoint?)
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let done: (End) -> Void
    private var timer: LoopTimer?
    private var watch: FileWatch?
    /// The received bytes of the header.
    private var bytes: [UInt8] = []

    /// The socket must outlive the object; `done` is called once, on the loop. Fails if the system lacks the resources
    /// to wait.
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
            // The optimiser requires the owner of the span to be here.
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

    /// Takes bytes from the socket that were peeked before.
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
