import Timekeeping

/// The resources that all streams of one loop share, so that each stream needs little memory. The streams share memory
/// for reading and for collected output, one timer for all deadlines, and the sockets of ended connections.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// The output that was collected so far. At most one stream at a time collects output.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = LingeringSockets()
    private var deadlines = DeadlineQueue<Waiter>()
    /// The timer of the earliest deadline of all connections. The timer retains the loop, and the loop retains the
    /// ``StreamShare``, so the timer exists only while streams have deadlines.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// The maximum number of bytes that a connection reads or collects in one step. If a peer has sent more bytes, the
    /// connection reads these bytes after other connections were served.
    static let size = 16 << 10
    /// The priority of the timer for all streams. No connection has a higher priority than the timer, so that no
    /// connection can delay the deadlines of others.
    static let turn = LoopTurn.usual
    /// The number of deadlines that are reported one after the other, before the loop looks for new events.
    private static let deadlinesInARow = 16

    deinit { unsafe memory.deallocate() }

    /// Memory for at most `limit` bytes, which can be used until the next read.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // If memory for the timer is lacking, the next call with a deadline creates the timer. The reference to `self`
        // is safe, because the timer belongs to the ``StreamShare``.
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
