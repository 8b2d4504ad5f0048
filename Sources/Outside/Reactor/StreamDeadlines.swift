import Timekeeping

/// The deadlines of the streams of one loop, and the timer of the earliest deadline.
@safe
final class StreamDeadlines {
    private let turn: LoopTurn
    private var deadlines = DeadlineQueue<Waiter>()
    /// `nil` without deadlines, because the timer retains the loop.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// The number of deadlines that are reported before the loop looks for new events.
    private static let deadlinesInARow = 16

    /// - Parameter turn: the priority of the timer; the streams have the same or a lower priority.
    init(turn: LoopTurn) { self.turn = turn }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // If no memory is available for the timer, the next call with a deadline creates the timer. The object owns the
        // timer, so `self` exists whenever the timer fires.
        if timer == nil {
            timer = try? LoopTimer(on: connection.loop, turn: turn) { [unowned self] in deadlinesReached() }
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
