import Timekeeping

/// The parts that the streams of a loop share, to keep each stream small: the memory for reading and gathering, one
/// timer for all deadlines, and the sockets of ended connections.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// The output so far of the one stream that gathers.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = LingeringSockets()
    private var deadlines = DeadlineQueue<Waiter>()
    /// It holds the loop, which holds this object, so it ends with the last deadline.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// How much is read or gathered at a time. A peer that sends more waits until the others had their turn.
    static let size = 16 << 10
    /// Not after any connection, so that no connection can delay the deadlines of others.
    static let turn = LoopTurn.usual
    /// How many deadlines are reported before the loop checks for new events.
    private static let deadlinesInARow = 16

    deinit { unsafe memory.deallocate() }

    /// Memory for at most `limit` bytes, valid until the next read.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // Fails only if memory is lacking; the next deadline tries again. The timer belongs to this object, so `self`
        // lives as long.
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
