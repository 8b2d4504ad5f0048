import ProxyCore
import Reactor
import Timekeeping

/// Measures how long work waits, and reports it to the engine, which decides what to refuse.
///
/// Without load it costs almost nothing. The age of datagrams is read only for a full batch, the loop is probed now and
/// then for connections, and commits are measured one at a time.
struct LoadMeasurement {
    private var canary: LoopCanary?
    /// The measured commit, and its submission time.
    private var commit: (ticket: CommitTicket, orderedAt: Instant)?
    /// How many datagrams each socket has lost so far, and when to check next.
    private var lost: [UInt16: UInt64] = [:]
    private var nextLook = Instant.distantPast

    private static let lookPause: Duration = .milliseconds(20)

    /// Measures the waits of connections on that loop.
    mutating func start(on loop: EventLoop, tell: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        canary = try LoopCanary(on: loop, handler: tell)
    }

    /// Bytes arrived on a connection.
    func streamReceived(now: Instant) { canary?.ring(now: now) }

    /// A full batch was read: more datagrams may wait, and this batch may be old.
    mutating func batchWasFull(on socket: UDPSocket, number: UInt16, now: Instant, _ engine: ProxyEngine) {
        if let wait = socket.lastWait { engine.looked(after: wait, now: now) }
        guard now >= nextLook else { return }
        nextLook = now + Self.lookPause
        let drops = socket.receiveDrops
        if let before = lost.updateValue(drops, forKey: number), drops > before { engine.messagesLost(now: now) }
    }

    /// Whether a commit is being measured. Only if not, the next commit is reported.
    var isWaiting: Bool { commit != nil }

    mutating func ordered(_ ticket: CommitTicket, now: Instant) { commit = (ticket, now) }

    mutating func finished(_ ticket: CommitTicket, now: Instant, _ engine: ProxyEngine) {
        guard let ordered = commit, ordered.ticket == ticket else { return }
        commit = nil
        engine.stored(after: now - ordered.orderedAt, now: now)
    }
}
