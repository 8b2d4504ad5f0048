import ProxyCore
import Reactor
import Registration
import Timekeeping

/// Measures how long messages and commits wait, and reports the times to the engine, which refuses requests under
/// overload.
///
/// Without load, the measurement of waiting times costs almost no time. Datagrams are measured only after a full batch,
/// and other events only at intervals. Only one commit at a time is measured.
struct LoadMeasurement {
    private var canary: LoopCanary?
    /// The measured commit, and the time of its submission.
    private var commit: (ticket: CommitTicket, orderedAt: Instant)?
    /// The number of datagrams that each socket has lost so far.
    private var lost: [UInt16: UInt64] = [:]
    private var nextLook = Instant.distantPast

    private static let lookPause: Duration = .milliseconds(20)

    /// Prepares the measurement of the loop. The closure `tell` gets each waiting time, and the time of the
    /// measurement.
    mutating func start(on loop: EventLoop, tell: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        canary = try LoopCanary(on: loop, handler: tell)
    }

    /// Notes that bytes have arrived on a connection, and at intervals measures how long events wait for the loop.
    func streamReceived(now: Instant) { canary?.ring(now: now) }

    /// Measures how long a socket's datagrams waited, and whether the socket lost datagrams. Only a full batch is
    /// measured, because after a smaller batch no datagram waits.
    mutating func batchWasFull(on socket: UDPSocket, number: UInt16, now: Instant, _ engine: ProxyEngine) {
        if let wait = socket.lastWait { engine.looked(after: wait, now: now) }
        guard now >= nextLook else { return }
        nextLook = now + Self.lookPause
        let drops = socket.receiveDrops
        if let before = lost.updateValue(drops, forKey: number), drops > before { engine.messagesLost(now: now) }
    }

    /// Whether the duration of a commit is being measured.
    var isWaiting: Bool { commit != nil }

    mutating func ordered(_ ticket: CommitTicket, now: Instant) { commit = (ticket, now) }

    mutating func finished(_ ticket: CommitTicket, now: Instant, _ engine: ProxyEngine) {
        guard let ordered = commit, ordered.ticket == ticket else { return }
        commit = nil
        engine.stored(after: now - ordered.orderedAt, now: now)
    }
}
