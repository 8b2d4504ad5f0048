import ProxyCore
import Reactor
import Timekeeping

/// Measures how long work waits, and tells the engine, which decides what to refuse.
///
/// It costs next to nothing while there is no load: of datagrams only a full batch is asked how old it is, of connections
/// the loop is asked now and then, and of commits one at a time.
struct LoadMeasurement {
    private var canary: LoopCanary?
    /// The commit that is waited for, and when it was ordered.
    private var commit: (ticket: CommitTicket, orderedAt: Instant)?
    /// Datagrams that were lost so far, and when to look next.
    private var lost: [UInt16: UInt64] = [:]
    private var nextLook = Instant.distantPast

    private static let lookPause: Duration = .milliseconds(20)

    /// Measures the waits of connections by that loop.
    mutating func start(on loop: EventLoop, tell: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        canary = try LoopCanary(on: loop, handler: tell)
    }

    /// Something came on a connection.
    func streamReceived(now: Instant) { canary?.ring(now: now) }

    /// A full batch was read: there may be more, and it may be old.
    mutating func batchWasFull(on socket: UDPSocket, number: UInt16, now: Instant, _ engine: ProxyEngine) {
        if let wait = socket.lastWait { engine.looked(after: wait, now: now) }
        guard now >= nextLook else { return }
        nextLook = now + Self.lookPause
        let drops = socket.receiveDrops
        if let before = lost.updateValue(drops, forKey: number), drops > before { engine.messagesLost(now: now) }
    }

    /// Whether a commit is being measured; only when none is, the next is to be told of.
    var isWaiting: Bool { commit != nil }

    mutating func ordered(_ ticket: CommitTicket, now: Instant) { commit = (ticket, now) }

    mutating func finished(_ ticket: CommitTicket, now: Instant, _ engine: ProxyEngine) {
        guard let ordered = commit, ordered.ticket == ticket else { return }
        commit = nil
        engine.stored(after: now - ordered.orderedAt, now: now)
    }
}
