import Reactor
package import Registration
import Storage
package import Telemetry

/// Writes changes to the store on a thread of its own and says when they are on the disk.
///
/// Changes are written in the order in which they were handed over, which any thread may do and which never waits.
package final class StoreWriter: Sendable {
    private let loop: EventLoop
    private let checkpointLoop: EventLoop
    private let session: StoreSession
    private let checkpointer: StoreCheckpointer
    private let intake: Locked<StoreIntake>
    private let counted = Locked(CounterSet())
    private let health = Locked(StoreHealth())
    private let settings: StoreWriterSettings

    /// Opens the store, brings it to this program's schema and starts the threads.
    ///
    /// - Parameters:
    ///   - path: the database file.
    ///   - settings: how changes are gathered.
    ///   - log: for what goes wrong later.
    ///   - onResults: called on the writer's thread after each commit, in the order of submission.
    /// - Throws: what keeps the store from being used at all.
    package init(
        path: String, settings: StoreWriterSettings = StoreWriterSettings(), log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) throws(SQLiteFailure) {
        self.settings = settings
        intake = Locked(StoreIntake(companyLimit: settings.companyLimit))
        _ = try Connection.openStore(path, mayCreate: true)
        do throws(SystemError) {
            loop = try EventLoop()
            checkpointLoop = try EventLoop()
        } catch {
            throw .system("\(error)")
        }
        checkpointer = StoreCheckpointer(loop: checkpointLoop, path: path)
        session = StoreSession(
            loop: loop, path: path, settings: settings, intake: intake, figures: counted, health: health,
            checkpointer: checkpointer, log: log, onResults: onResults)
        checkpointer.open()
        loop.post { [session] in session.assumeIsolated { $0.started() } }
        do throws(SystemError) {
            // A call that rings now goes before the rows of others.
            try loop.start(name: "store", givesWay: true)
            try checkpointLoop.start(name: "checkpoint", givesWay: true)
        } catch {
            throw .system("\(error)")
        }
    }

    /// Queues changes that somebody waits for, to be written in the order of submission.
    ///
    /// - Parameters:
    ///   - changes: written together; at least one.
    ///   - ticket: comes back with the result.
    /// - Returns: `false` when too many changes wait already or the writer has stopped; then there will be no result, and
    ///   the caller answers 503.
    package func commit(_ changes: [RowChange], for ticket: StoreTicket) -> Bool {
        add(StoreIntake.Entry(ticket: ticket, changes: changes))
    }

    /// Queues changes that nobody waits for, in the same order. They may wait a moment for company, so that they cost no
    /// sync of their own; a failing disk does not lose them.
    ///
    /// - Returns: `false` when too many changes wait already or the writer has stopped.
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
        case .atOnce: loop.post { [session] in session.assumeIsolated { $0.companyArrived() } }
        }
        return true
    }

    /// Returns when all that was queued before was written, or could not be: who reads then finds it.
    package func writeWaiting() async { await session.writeWaiting() }

    /// Queues rows that may be lost in a crash, such as a refreshed expiry; written within seconds, the newest of each
    /// binding. A later ``commit(_:for:)`` or ``record(_:)`` of the same binding takes their place.
    ///
    /// - Parameter rows: bindings that are in the store.
    /// - Returns: `false` when too many wait already, or the writer has stopped; then none of them was taken.
    package func refresh(_ rows: [StoredBinding]) -> Bool {
        guard let isFirst = intake.withLock({ $0.addLazily(rows, limit: settings.lazyLimit) }) else { return false }
        if isFirst { loop.post { [session] in session.assumeIsolated { $0.lazyRowsArrived() } } }
        return true
    }

    /// Writes what waits, lazy rows too, and ends the threads; refuses everything that comes later. Waits for the disk.
    package func stop() {
        intake.withLock { $0.close() }
        checkpointer.close()
        checkpointLoop.stop()
        checkpointLoop.join()
        loop.post { [session] in session.assumeIsolated { $0.stopped() } }
        loop.stop()
        loop.join()
    }

    /// How many changes wait, lazy ones apart.
    package var queueLength: Int { intake.withLock { $0.count } }

    /// Why changes cannot be written now; `nil` when they can. The writer finds out by itself when that is over.
    package var failure: String? { health.withLock { $0.failure } }

    /// Commits, changes, failures and the length of commits since the start.
    package var figures: CounterSet {
        var figures = counted.withLock { $0 }
        figures.set(.storeQueue, to: queueLength)
        figures.set(.storeFailing, to: failure == nil ? 0 : 1)
        return figures
    }
}
