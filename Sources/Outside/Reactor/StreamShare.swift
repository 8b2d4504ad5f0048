import Timekeeping

/// What the streams of a loop share, so that each of them is small: the memory that they read into and gather in, one timer
/// for all their deadlines, and the sockets of those that have ended.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// What the one stream that gathers has sent so far.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = Farewells()
    private var deadlines = DeadlineQueue<Waiter>()
    /// It holds the loop, which holds us, so it ends with the last deadline.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// So much is read or gathered at a time. Whoever sends more waits until the others have had their turn.
    static let size = 16 << 10
    /// Not behind any connection, so that none keeps the time of the others from running out.
    static let turn = LoopTurn.usual
    /// So many connections are told that their time is up before new readiness is looked for.
    private static let deadlinesInARow = 16

    deinit { unsafe memory.deallocate() }

    /// Room for no more bytes than `limit`, to be used before anybody else reads.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // Fails only for lack of memory; the next deadline tries again. The timer is ours, so we live as long as it does.
        if timer == nil {
            timer = try? LoopTimer(on: connection.loop, turn: Self.turn) { [unowned self] in deadlinesReached() }
        }
        armTimer()
        return id
    }

    func cancel(_ id: DeadlineID) {
        deadlines.cancel(id)
        if deadlines.count == 0 { timer = nil }
    }

    private func deadlinesReached() {
        let now = SystemClock.now
        for _ in 0..<Self.deadlinesInARow {
            guard let waiter = deadlines.popExpired(now: now) else { break }
            waiter.connection?.deadlineReached(now: now)
        }
        armTimer()
    }

    private func armTimer() {
        if let deadline = deadlines.nextDeadline { timer?.arm(at: deadline) } else { timer = nil }
    }
}
