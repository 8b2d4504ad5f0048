import Crypto
import Timekeeping

/// The memory, the timer and the sockets of ended connections that all streams of one loop share.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// The output collected so far, of at most one stream at a time.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = LingeringSockets()
    /// The memory in which TLS sessions decrypt and encrypt.
    private(set) lazy var records = TLSRecords()
    private var deadlines = DeadlineQueue<Waiter>()
    /// The timer of the earliest deadline of all streams; `nil` without deadlines, because the timer retains the loop.
    private var timer: LoopTimer?

    private struct Waiter {
        weak var connection: StreamConnection?
    }

    /// The maximum number of bytes that a connection reads or collects in one step. The connection reads its next input
    /// only after other connections were served.
    static let size = TLSRecords.inputLimit
    /// The priority of the timer for all streams; no connection has a higher priority.
    static let turn = LoopTurn.usual
    /// The number of deadlines that are reported before the loop looks for new events.
    private static let deadlinesInARow = 16

    deinit { unsafe memory.deallocate() }

    /// Memory for at most `limit` bytes, valid until the next read.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    func schedule(_ connection: StreamConnection, at deadline: Instant) -> DeadlineID {
        let id = deadlines.schedule(Waiter(connection: connection), at: deadline)
        // If no memory is available for the timer, the next call with a deadline creates the timer. The ``StreamShare``
        // owns the timer, so `self` exists whenever the timer fires.
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
