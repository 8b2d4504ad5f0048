import Addressing
import Timekeeping

/// Reads the PROXY header with which a load balancer begins a connection. What follows the header stays in the socket, since
/// it is the peer's.
///
/// What has come of the header is taken from the socket at once: as long as it lay there, the socket would be ready again and
/// again, and nothing behind its turn would be called.
///
/// Waiting ends with the object, without a word.
final class ProxyHeaderWait {
    enum End: Hashable {
        /// Something else came, or nothing in time.
        case none
        /// The connection ended before anything came, as it does when a balancer only looks whether we are there.
        case nothing
        /// The header was there, with the address that it names; `nil` when the balancer speaks for itself.
        case header(Endpoint?)
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let done: (End) -> Void
    private var timer: LoopTimer?
    private var watch: FileWatch?
    /// What has come of the header.
    private var bytes: [UInt8] = []

    /// The socket must outlive the object; `done` is called once, on the loop. Fails when the system has nothing left to
    /// wait with.
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
            // The optimiser wants the span's owner to stand here.
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

    /// Takes bytes that were seen from the socket.
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
