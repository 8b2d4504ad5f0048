import Addressing
import Timekeeping

/// Waits for the PROXY header with which a load balancer begins a connection, and takes it from the socket, so that what
/// follows it is the peer's.
///
/// Waiting ends with the object, without a word.
final class ProxyHeaderWait {
    enum End: Hashable {
        /// Nothing came in time, or something else.
        case none
        /// The header was there, with the address that it names; `nil` when the balancer speaks for itself.
        case header(Endpoint?)
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let done: (End) -> Void
    private var timer: LoopTimer?
    private var watch: FileWatch?

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
        let watch = try FileWatch(descriptor: descriptor, on: loop) { [weak self] _ in self?.arrived() }
        try watch.watch(for: .read)
        self.watch = watch
    }

    private func arrived() {
        let room = unsafe loop.streams.room(upTo: ProxyHeader.longest)
        guard let count = unsafe try? System.peek(descriptor, into: room), count > 0 else { return end(.none) }
        switch unsafe ProxyHeader(Span(_unsafeElements: room).extracting(first: count)) {
        case .incomplete: break
        case .invalid: end(.none)
        case .header(let length, let source):
            let header = unsafe UnsafeMutableBufferPointer(rebasing: room[..<length])
            let taken = unsafe try? System.receive(descriptor, into: header)
            end(taken == length ? .header(source) : .none)
        }
    }

    private func end(_ end: End) {
        watch = nil
        timer = nil
        done(end)
    }
}
