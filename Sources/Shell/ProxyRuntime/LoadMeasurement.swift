import ProxyCore
import Reactor
import Registration
import Timekeeping

/// Measures how long messages and commits wait, and reports it to the engine, which decides what to refuse.
///
/// Without load it costs almost nothing. The age of datagrams is read only after a full batch. For connections, the
/// loop is probed now and then. Only one commit at a time is measured.
struct LoadMeasurement {
    private var canary: LoopCanary?
    /// The commit that is being measured, and the time of its submission.
    private var commit: (ticket: CommitTicket, orderedAt: Instant)?
    /// How many datagrams each socket has lost so far.
    private var lost: [UInt16: UInt64] = [:]
    private var nextLook = Instant.distantPast

    private static let lookPause: Duration = .milliseconds(20)

    /// Starts to measure how long connections on this loop wait.
    mutating func start(on loop: EventLoop, tell: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        canary = try LoopCanary(on: loop, handler: tell)
    }

    /// Call when bytes arrived on a connection. Probes the loop now and then.
    func streamReceived(now: Instant) { canary?.ring(now: now) }

    /// Call when a full batch of datagrams was read. More datagrams may wait, and the read ones may have waited long.
    mutating func batchWasFull(on socket: UDPSocket, number: UInt16, now: Instant, _ engine: ProxyEngine) {
        if let wait = socket.lastWait { engine.looked(after: wait, now: now) }
        guard now >= nextLook else { return }
        nextLook = now + Self.lookPause
        let drops = socket.receiveDrops
        if let before = lost.updateValue(drops, forKey: number), drops > before { engine.messagesLost(now: now) }
    }

    /// Whether a commit is being measured. While one is, further commits are not measured.
    var isWaiting: Bool { commit != nil }

    mutating func ordered(_ ticket: CommitTicket, now: Instant) { commit = (ticket, now) }

    mutating func finished(_ ticket: CommitTicket, now: Instant, _ engine: ProxyEngine) {
        guard let ordered = commit, ordered.ticket == ticket else { return }
        commit = nil
        engine.stored(after: now - ordered.orderedAt, now: now)
    }
}
