import Timekeeping

/// Parts that all streams of a loop share, so that each stream is small: the memory for reading and gathering, one
/// timer for all deadlines, and the sockets of ended connections.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// The output that was gathered so far. Only one stream at a time gathers output.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = LingeringSockets()
    private var deadlines = DeadlineQueue<Waiter>()
    /// The timer exists only while there are deadlines. It retains the loop, which retains this object.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// How many bytes are read or gathered at a time. If a peer sends more, the rest waits until other connections had
    /// their turn.
    static let size = 16 << 10
    /// The turn of the timer. It is not later than the turn of any connection, so that no connection can delay the
    /// deadlines of others.
    static let turn = LoopTurn.usual
    /// How many deadlines are reported before the loop looks for new events.
    private static let deadlinesInARow = 16

    deinit { unsafe memory.deallocate() }

    /// Memory for at most `limit` bytes. It is valid until the next read.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // This fails only if memory is lacking. The next deadline then tries again. The timer belongs to this object,
        // so `self` outlives it.
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
