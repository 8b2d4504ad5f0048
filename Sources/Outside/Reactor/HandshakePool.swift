import Crypto

/// The threads that perform the TLS handshakes of accepted connections.
///
/// A TLS handshake takes as much processor time as a whole call, without a pause. The kernel prefers the loop's thread to the threads
/// of the pool, so that calls do not wait for handshakes.
///
/// A connection goes to the thread with the fewest connections that wait for their first step. If connections wait for
/// all threads, another thread starts, up to the limit. A daemon with few handshakes therefore has one thread.
///
/// - The type is `@unchecked Sendable`, because only the thread of the owner's loop uses the threads, and the backlog is
///   behind a lock.
final class HandshakePool: @unchecked Sendable {
    private let threadLimit: Int
    private var threads: [HandshakeThread]
    /// The thread of the latest connection; equally busy threads get connections in turn.
    private var latest = 0
    private let backlog = Locked(Backlog())

    /// The connections whose handshakes have not started, and the callbacks that run when the number of these
    /// connections falls.
    private struct Backlog {
        /// The number of connections that wait for each thread.
        var counts = [0]
        var total = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// The maximum number of connections whose handshakes have not started. If the backlog is full, further connections
    /// wait in the kernel, where no time limit applies to them.
    private static let backlogLimit = 64

    /// The number of threads for a machine: one processor is left to the loop.
    static func threadLimit(processors: Int) -> Int { max(processors - 1, 1) }

    /// Starts the first thread of the pool.
    init(threadLimit: Int) throws(SystemError) {
        self.threadLimit = threadLimit
        threads = [try HandshakeThread()]
    }

    /// Begins the TLS handshake of an accepted connection, on one of the threads. See
    /// ``HandshakeThread/begin(_:_:_:started:ended:)``.
    func begin(
        _ number: UInt64, _ descriptor: consuming Descriptor, _ session: TLSSession,
        ended: @escaping @Sendable (HandshakeThread.End) -> Void
    ) -> PendingHandshake {
        let place = nextPlace()
        latest = place
        backlog.withLock { backlog in
            backlog.counts[place] += 1
            backlog.total += 1
        }
        return threads[place].begin(
            number, descriptor, session, started: { [self] in handshakeStarted(at: place) }, ended: ended)
    }

    /// The number of threads that have been started.
    var threadCount: Int { threads.count }

    private func nextPlace() -> Int {
        let counts = backlog.withLock { $0.counts }
        let inTurn = (1...counts.count).map { (latest + $0) % counts.count }
        let place = inTurn.min { counts[$0] < counts[$1] } ?? 0
        guard counts[place] > 0, threads.count < threadLimit else { return place }
        // Without resources for another thread, the existing threads do the work.
        guard let thread = try? HandshakeThread() else { return place }
        threads.append(thread)
        backlog.withLock { $0.counts.append(0) }
        return threads.count - 1
    }

    // MARK: Backlog

    var hasRoom: Bool { backlog.withLock { $0.total < Self.backlogLimit } }

    /// Runs the job once, on any thread, when the backlog of handshakes is at most half full.
    func whenThereIsRoom(_ job: @escaping @Sendable () -> Void) {
        let hasRoom = backlog.withLock { backlog in
            guard backlog.total > Self.backlogLimit / 2 else { return true }
            backlog.waiting.append(job)
            return false
        }
        if hasRoom { job() }
    }

    private func handshakeStarted(at place: Int) {
        let jobs = backlog.withLock { backlog in
            backlog.counts[place] -= 1
            backlog.total -= 1
            return backlog.total > Self.backlogLimit / 2 ? [] : exchange(&backlog.waiting, with: [])
        }
        for job in jobs { job() }
    }
}
