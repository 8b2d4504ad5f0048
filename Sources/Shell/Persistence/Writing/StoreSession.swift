import Collections
import ProxyCore
import Reactor
import Registration
import Telemetry
import Timekeeping

/// The work of the writer's thread: takes waiting changes, commits them in one transaction, and reports the results.
///
/// During the sync of one commit, further changes gather for the next commit. Under load, a minimum time passes between
/// the starts of two commits, so that more changes share each sync.
///
/// The requester of a failed change learns that the change is not stored. Failed changes whose result nobody awaits are
/// kept in order. The store reports its failure until a test of the database succeeds. The log has one line at the start
/// and one line at the end of a failure.
actor StoreSession {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let database: any StoreDatabase
    private let settings: StoreWriterSettings
    private let intake: Locked<StoreIntake>
    private let figures: Locked<CounterSet>
    private let health: Locked<StoreHealth>
    private let log: Log
    private let onResults: @Sendable ([StoreResult]) -> Void

    private var gatherTimer: LoopTimer?
    /// The timer of the next commit.
    private var turnTimer: LoopTimer?
    private var turns: CommitTurns
    private var lazyTimer: LoopTimer?
    private var isLazyDue = false
    /// The time since which the store cannot write changes; `nil` if the store can write.
    private var failingSince: Instant?
    private var isFailureLogged = false
    /// The earliest time of the next line about a failure.
    private var nextLine = Instant.distantPast
    private var probeTimer: LoopTimer?
    private var deferred = DeferredChanges()
    private var lookTimer: LoopTimer?

    init(
        loop: EventLoop, database: any StoreDatabase, settings: StoreWriterSettings, intake: Locked<StoreIntake>,
        figures: Locked<CounterSet>, health: Locked<StoreHealth>, log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) {
        self.loop = loop
        self.database = database
        self.settings = settings
        turns = CommitTurns(settings)
        self.intake = intake
        self.figures = figures
        self.health = health
        self.log = log
        self.onResults = onResults
    }

    // MARK: Events

    /// Tests at the start whether the database can write, so that the log reports a failure before the first phone is
    /// refused.
    func started() {
        do throws(StoreFailure) {
            try database.probe()
        } catch {
            noteFailure(error)
        }
        armLook()
    }

    /// Starts the gathering time for changes whose result nobody awaits. After the gathering time, the gathered changes
    /// are written; if a result is awaited earlier, they are written with the awaited change.
    func changesGather() {
        if gatherTimer == nil {
            gatherTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.gatheringEnded() } }
        }
        guard let gatherTimer else { return gatheringEnded() }
        if gatherTimer.deadline == nil { gatherTimer.arm(at: loop.now + settings.gatherInterval) }
    }

    private func gatheringEnded() {
        if intake.withLock({ $0.gatheringEnded() }) { changesArrived() }
    }

    /// Writes the waiting changes at the next time that ``CommitTurns`` allows. The writer calls ``changesArrived()``
    /// when a result is awaited, or after the gathering time.
    func changesArrived() {
        guard loop.now < turns.next else { return writeNext() }
        if turnTimer == nil {
            turnTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.writeNext() } }
        }
        guard let turnTimer else { return writeNext() }
        turnTimer.arm(at: turns.next)
    }

    /// Writes the waiting changes immediately, because as many changes wait as the last commits had.
    func groupArrived() {
        // A commit may have taken the waiting changes after the notice was sent.
        if intake.withLock({ $0.isGroupComplete }) { writeNext() } else { changesArrived() }
    }

    /// Writes one batch of waiting changes. If more changes wait, the loop runs ``writeNext()`` again.
    private func writeNext() {
        turnTimer?.disarm()
        let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: isLazyDue) }
        turns.began(for: batch.entries.count { $0.ticket != nil }, now: loop.now)
        write(batch)
        // Changes that remain in the queue are written immediately after the present batch. Changes that arrive later
        // send their own notice to the writer.
        if batch.leavesEntries { loop.post { self.assumeIsolated { $0.writeNext() } } }
    }

    /// Writes all waiting changes immediately, without a gathering time. If the disk fails, the changes wait until the
    /// disk works again.
    func writeWaiting() {
        for _ in 0...settings.queueLimit / settings.batchLimit {
            guard intake.withLock({ $0.count > 0 }) else { return }
            writeNext()
        }
    }

    /// Starts the timer for lazy rows when the first lazy row waits.
    func lazyRowsArrived() {
        guard !isLazyDue else { return }
        if lazyTimer == nil {
            lazyTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.lazyRowsDue() } }
        }
        guard let lazyTimer else { return lazyRowsDue() }
        if lazyTimer.deadline == nil { lazyTimer.arm(at: loop.now + settings.lazyInterval) }
    }

    private func lazyRowsDue() {
        isLazyDue = true
        changesArrived()
    }

    /// Ends the session: writes all waiting changes, and closes the database.
    func stopped() {
        gatherTimer = nil
        turnTimer = nil
        lazyTimer = nil
        probeTimer = nil
        lookTimer = nil
        while true {
            let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: true) }
            guard !batch.isEmpty else { break }
            // At the end of the session, a failed batch of lazy rows is not retried, because the retries might never
            // end.
            if !write(batch), batch.entries.isEmpty { break }
        }
        if deferred.count > 0 { write(StoreIntake.Batch()) }
        if deferred.count > 0 {
            log.error(
                "the store could not write its last changes before the daemon ended, so the changes are lost",
                [.count: .number(deferred.count), .path: .text(database.place)])
        }
        database.close()
    }

    // MARK: Writing

    @discardableResult
    private func write(_ batch: StoreIntake.Batch) -> Bool {
        guard !batch.isEmpty || deferred.count > 0 else {
            intake.withLock { $0.written() }
            return true
        }
        let start = loop.now
        let outcome = commit(batch)
        intake.withLock { $0.written() }
        let duration = loop.now - start
        switch outcome {
        case .stored(let missing, let delayed):
            count(.storeChange, batch.changeCount + delayed, took: duration)
            report(batch.entries, missing: missing)
            finishLazyRows()
            database.committed()
            return true
        case .failed(let error):
            count(.storeFailure, batch.changeCount, took: nil)
            failed(batch, error)
            return false
        }
    }

    private func count(_ counter: Counter, _ changes: Int, took duration: Duration?) {
        figures.withLock { figures in
            figures.count(counter, by: UInt64(changes))
            guard let duration else { return }
            figures.count(.storeCommit)
            figures.observe(.storeCommit, duration)
        }
    }

    /// Reports the results of changes to their requesters. The parameter `missing` has the tickets of missing rows;
    /// `nil` if no change was stored.
    private func report(_ entries: [StoreIntake.Entry], missing: Set<StoreTicket>?) {
        guard !entries.isEmpty else { return }
        onResults(
            entries.map { entry in
                StoreResult(
                    ticket: entry.ticket, isStored: missing != nil,
                    isFound: entry.ticket.map { missing?.contains($0) != true } ?? true)
            })
    }

    private func finishLazyRows() {
        guard isLazyDue else { return }
        if intake.withLock({ $0.lazyCount }) == 0 {
            isLazyDue = false
        } else {
            loop.post { self.assumeIsolated { $0.changesArrived() } }
        }
    }

    private enum Outcome {
        /// The store has persisted all changes. The value `missing` has the tickets of missing rows; `delayed` is the
        /// number of changes that waited since an earlier failure.
        case stored(missing: Set<StoreTicket>, delayed: Int)
        case failed(StoreFailure)
    }

    /// Commits the deferred changes of earlier failures and the batch in one transaction.
    private func commit(_ batch: StoreIntake.Batch) -> Outcome {
        do throws(StoreFailure) {
            let waiting = deferred.count > 0 ? deferred.entries.elements : []
            let missing = try database.write(waiting, batch)
            let delayed = deferred.count
            if delayed > 0 { deferred.clear() }
            return .stored(missing: missing, delayed: delayed)
        } catch {
            return .failed(error)
        }
    }

    private func armLook() {
        if lookTimer == nil {
            lookTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.look() } }
        }
        lookTimer?.arm(at: loop.now + database.lookInterval)
    }

    private func look() {
        armLook()
        do throws(StoreFailure) {
            try database.look()
        } catch {
            noteFailure(error)
        }
    }

    // MARK: Failures

    private func failed(_ batch: StoreIntake.Batch, _ error: StoreFailure) {
        let isOver = !error.isOfSystem
        // The failure is noted first, so that a requester who learns of it can ask for the reason.
        noteFailure(error)
        // If the changes themselves caused the failure, each retry would fail, so all deferred changes are dropped.
        if isOver {
            deferred.clear()
        } else {
            deferred.add(batch.entries.filter { $0.ticket == nil }, limit: settings.deferralLimit)
        }
        report(batch.entries.filter { isOver || $0.ticket != nil }, missing: nil)
        intake.withLock { $0.restore(batch.lazyRows) }
        // Failed lazy rows are written again after the next interval.
        isLazyDue = false
        if intake.withLock({ $0.lazyCount > 0 }) { lazyRowsArrived() }
    }

    private func noteFailure(_ error: StoreFailure) {
        armProbe()
        if failingSince == nil { failingSince = loop.now }
        health.withLock { $0.failure = error.reason }
        // A database that fails and recovers several times a second gives one line a second.
        guard !isFailureLogged, loop.now >= nextLine else { return }
        isFailureLogged = true
        nextLine = loop.now + .seconds(1)
        log.error("the store cannot be written", [.error: .text(error.reason), .path: .text(database.place)])
    }

    private func armProbe() {
        if probeTimer == nil {
            probeTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.probe() } }
        }
        if probeTimer?.deadline == nil { probeTimer?.arm(at: loop.now + database.probeInterval) }
    }

    private func probe() {
        guard let since = failingSince else { return }
        do throws(StoreFailure) {
            try database.probe()
        } catch {
            return noteFailure(error)
        }
        let (waiting, lost) = (deferred.count, deferred.lost)
        if waiting > 0, !write(StoreIntake.Batch()) { return }
        failingSince = nil
        health.withLock { $0.failure = nil }
        guard isFailureLogged else { return }
        isFailureLogged = false
        log.notice(
            "the store can be written again",
            [
                .duration: .duration(loop.now - since), .count: .number(waiting), .suppressed: .number(lost),
                .path: .text(database.place),
            ])
    }
}
