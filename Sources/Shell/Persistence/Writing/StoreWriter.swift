import Reactor
package import Registration
package import Telemetry

/// Writes changes to the store on its own thread, in the order of submission, and reports when they are persisted. Any
/// thread can submit changes, and no submission blocks.
package final class StoreWriter: Sendable {
    private let loop: EventLoop
    private let database: any StoreDatabase
    private let session: StoreSession
    private let intake: Locked<StoreIntake>
    private let counted = Locked(CounterSet())
    private let health = Locked(StoreHealth())
    private let settings: StoreWriterSettings

    /// Creates a writer of the database on a loop that does not run yet; ``start()`` runs the loop.
    init(
        _ database: any StoreDatabase, on loop: EventLoop, settings: StoreWriterSettings = StoreWriterSettings(),
        log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) {
        self.loop = loop
        self.database = database
        self.settings = settings
        intake = Locked(StoreIntake(groupSizeLimit: settings.groupSizeLimit))
        session = StoreSession(
            loop: loop, database: database, settings: settings, intake: intake, figures: counted, health: health,
            log: log, onResults: onResults)
    }

    /// Starts the writer's thread.
    func start() throws(SystemError) {
        loop.post { [session] in session.assumeIsolated { $0.started() } }
        // The kernel prefers the thread that serves SIP to the store's thread.
        try loop.start(name: "store", givesWay: true)
    }

    /// Queues changes for whose result a requester waits. The writer writes changes in the order in which they were
    /// submitted.
    ///
    /// - Parameters:
    ///   - changes: at least one change; one transaction writes all changes.
    ///   - ticket: the number by which the writer reports the result to the requester.
    /// - Returns: `true` if the changes are queued; `false` if too many changes wait, the database is away or the
    ///   writer has stopped, so that no result follows.
    package func commit(_ changes: [RowChange], for ticket: StoreTicket) -> Bool {
        guard !database.isAway else { return false }
        return add(StoreIntake.Entry(ticket: ticket, changes: changes))
    }

    /// Queues changes for whose result no requester waits, in order with all other changes. Recorded changes wait
    /// briefly for other changes, so that they need no sync of their own. If the disk fails, recorded changes wait
    /// until the disk works again.
    ///
    /// - Returns: `false` if too many changes wait or the writer has stopped.
    package func record(_ changes: [RowChange]) -> Bool { add(StoreIntake.Entry(ticket: nil, changes: changes)) }

    private func add(_ entry: StoreIntake.Entry) -> Bool {
        let call = intake.withLock {
            $0.add(entry, limit: settings.queueLimit, gatherLimit: settings.gatherLimit)
        }
        guard let call else { return false }
        switch call {
        case .none: break
        case .soon: loop.post { [session] in session.assumeIsolated { $0.changesGather() } }
        case .now: loop.post { [session] in session.assumeIsolated { $0.changesArrived() } }
        case .atOnce: loop.post { [session] in session.assumeIsolated { $0.groupArrived() } }
        }
        return true
    }

    /// Waits until all queued changes are written or have failed, so that a later read finds them.
    package func writeWaiting() async { await session.writeWaiting() }

    /// Queues rows that a crash may lose, such as a refreshed expiry. Only the newest queued row of each binding is
    /// written, within seconds. A later ``commit(_:for:)`` or ``record(_:)`` of a binding replaces the binding's queued
    /// row.
    ///
    /// - Parameter rows: bindings that are in the store.
    /// - Returns: `false` if too many rows wait or the writer has stopped, so that no row was queued.
    package func refresh(_ rows: [StoredBinding]) -> Bool {
        guard let isFirst = intake.withLock({ $0.addLazily(rows, limit: settings.lazyLimit) }) else { return false }
        if isFirst { loop.post { [session] in session.assumeIsolated { $0.lazyRowsArrived() } } }
        return true
    }

    /// Writes all waiting changes, including lazy rows, refuses later changes, and ends the threads. ``stop()`` blocks
    /// until all changes are persisted.
    package func stop() {
        intake.withLock { $0.close() }
        loop.post { [session] in session.assumeIsolated { $0.stopped() } }
        loop.stop()
        loop.join()
    }

    /// The number of changes in the queue, without lazy rows.
    package var queueLength: Int { intake.withLock { $0.count } }
    /// Whether a change waits, or is being written.
    var hasUnwritten: Bool { intake.withLock { $0.count > 0 || $0.isWriting } }

    /// Why the store can write no changes; `nil` if the store can write, or if a test of the disk has succeeded.
    package var failure: String? { health.withLock { $0.failure } }

    /// The numbers of commits, changes and failures, and the durations of commits, since the start.
    package var figures: CounterSet {
        var figures = counted.withLock { $0 }
        figures.set(.storeQueue, to: queueLength)
        figures.set(.storeFailing, to: failure == nil ? 0 : 1)
        return figures
    }
}
