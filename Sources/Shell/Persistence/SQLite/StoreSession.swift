import Collections
import ProxyCore
import Reactor
import Registration
import Storage
import Telemetry
import Timekeeping

/// The work of the writer's thread: takes waiting changes, commits them in one transaction, and reports the results.
///
/// During the sync of one commit, further changes gather for the next commit. Under load, a minimum time passes between
/// the starts of two commits, so that more changes share each sync.
///
/// After a failed commit, the database is opened again, because the state of the disk is unknown. The requester of a
/// failed change learns that the change is not stored. A failed change without a waiting requester is kept, in order.
/// The store reports its failure until a test finds room on the disk. The log has one line at the start and one line at
/// the end of a failure.
actor StoreSession {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private let settings: StoreWriterSettings
    private let intake: Locked<StoreIntake>
    private let figures: Locked<CounterSet>
    private let health: Locked<StoreHealth>
    private let checkpointer: StoreCheckpointer
    private let log: Log
    private let onResults: @Sendable ([StoreResult]) -> Void

    private var connection: Connection?
    private var gatherTimer: LoopTimer?
    /// The timer of the next commit.
    private var turnTimer: LoopTimer?
    private var turns: CommitTurns
    private var lazyTimer: LoopTimer?
    private var isLazyDue = false
    private var isCheckpointing = false
    /// The time since which the store cannot write changes; `nil` if the store can write.
    private var failingSince: Instant?
    private var probeTimer: LoopTimer?
    private var deferred = DeferredChanges()
    /// The identities of the store's files when the connection was opened.
    private var files: StoreFiles?
    private var fileTimer: LoopTimer?
    /// Whether the write-ahead log was removed, so that only the writer's connection still has the log's contents.
    private var holdsRemovedLog = false

    init(
        loop: EventLoop, path: String, settings: StoreWriterSettings, intake: Locked<StoreIntake>,
        figures: Locked<CounterSet>, health: Locked<StoreHealth>, checkpointer: StoreCheckpointer, log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) {
        self.loop = loop
        self.path = path
        self.settings = settings
        turns = CommitTurns(settings)
        self.intake = intake
        self.figures = figures
        self.health = health
        self.checkpointer = checkpointer
        self.log = log
        self.onResults = onResults
    }

    // MARK: Events

    /// Tests at the start whether the disk has room, so that the log reports a full disk before the first phone is
    /// refused.
    func started() {
        do throws(SQLiteFailure) {
            try findRoom()
        } catch {
            dropConnection()
            noteFailure(error)
        }
    }

    /// Starts the gathering time for changes without a waiting requester. The gathered changes are written after the
    /// gathering time, or earlier together with a change for which a requester waits.
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
    /// when a requester waits for a result, or after the gathering time.
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

    /// Ends the session: writes all waiting changes, and leaves the store as one file.
    func stopped() {
        gatherTimer = nil
        turnTimer = nil
        lazyTimer = nil
        probeTimer = nil
        fileTimer = nil
        while true {
            let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: true) }
            guard !batch.isEmpty else { break }
            // When the session ends, a failed batch of lazy rows is not retried, because the retries might never
            // succeed.
            if !write(batch), batch.entries.isEmpty { break }
        }
        if deferred.count > 0 { write(StoreIntake.Batch()) }
        if deferred.count > 0 {
            log.error(
                "the store could not write its last changes before the daemon ended, so the changes are lost",
                [.count: .number(deferred.count), .path: .text(path)])
        }
        _ = try? connection?.checkpoint(.truncate)
        connection = nil
    }

    // MARK: Writing

    @discardableResult
    private func write(_ batch: StoreIntake.Batch) -> Bool {
        guard !batch.isEmpty || deferred.count > 0 else { return true }
        let start = loop.now
        let outcome = commit(batch)
        let duration = loop.now - start
        switch outcome {
        case .stored(let missing, let delayed):
            count(.storeChange, batch.changeCount + delayed, took: duration)
            report(batch.entries, missing: missing)
            finishLazyRows()
            startCheckpointIfDue()
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
        case failed(SQLiteFailure)
    }

    /// Commits the deferred changes of earlier failures and the batch in one transaction.
    private func commit(_ batch: StoreIntake.Batch) -> Outcome {
        do throws(SQLiteFailure) {
            let connection = try openConnection()
            let waiting = deferred.count > 0 ? deferred.entries.elements : []
            let missing = try SQLiteFailure.wrapping { () throws(SQLError) -> Set<StoreTicket> in
                try connection.transaction { () throws(SQLError) -> Set<StoreTicket> in
                    var missing: Set<StoreTicket> = []
                    var changes = LastChanges(of: waiting, batch.entries)
                    for entries in [waiting, batch.entries] {
                        for entry in entries {
                            for change in entry.changes where changes.nextCounts() {
                                guard !(try connection.apply(change)), let ticket = entry.ticket else { continue }
                                missing.insert(ticket)
                            }
                        }
                    }
                    for row in batch.lazyRows { try connection.refresh(row) }
                    return missing
                }
            }
            try keepInPlace(connection)
            let delayed = deferred.count
            if delayed > 0 { deferred.clear() }
            return .stored(missing: missing, delayed: delayed)
        } catch {
            dropConnection()
            return .failed(error)
        }
    }

    private func openConnection() throws(SQLiteFailure) -> Connection {
        if let connection { return connection }
        if let files, files.database != StoreFiles(path).database { throw .replaced }
        let opened = try Connection.openStore(path, mayCreate: false)
        files = StoreFiles(path)
        connection = opened
        armFileCheck()
        return opened
    }

    /// Checks before the report of results that the committed data are in the files that the next start opens.
    private func keepInPlace(_ connection: Connection) throws(SQLiteFailure) {
        let found = StoreFiles(path)
        guard found != files else { return }
        guard found.database == files?.database else { throw .replaced }
        // The contents of a removed write-ahead log are copied into the database file, because the writer's connection
        // still has the log open. A long read or a full disk can prevent the copy.
        holdsRemovedLog = true
        try SQLiteFailure.wrapping { () throws(SQLError) in
            let (logged, copied) = try connection.checkpoint(.truncate)
            guard logged == copied else {
                throw SQLError(code: .busy, message: "the write-ahead log could not be copied into the file")
            }
        }
        holdsRemovedLog = false
        files = nil
        log.error(
            "somebody removed the store's write-ahead log; the daemon saved the log's content to the database",
            [.path: .text(path)])
        self.connection = nil
        checkpointer.reopen()
    }

    /// Closes the database connection after a failure, so that the next change opens the database again.
    private func dropConnection() {
        if !holdsRemovedLog { connection = nil }
    }

    private func armFileCheck() {
        if fileTimer == nil {
            fileTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.checkFiles() } }
        }
        fileTimer?.arm(at: loop.now + settings.fileCheckInterval)
    }

    /// Checks the files even while no changes are written, because the next start must find all earlier changes.
    private func checkFiles() {
        fileTimer?.arm(at: loop.now + settings.fileCheckInterval)
        do throws(SQLiteFailure) {
            try keepInPlace(try openConnection())
        } catch {
            dropConnection()
            noteFailure(error)
        }
    }

    // MARK: Failures

    private func failed(_ batch: StoreIntake.Batch, _ error: SQLiteFailure) {
        let isOver = !error.isOfSystem
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
        noteFailure(error)
    }

    private func noteFailure(_ error: SQLiteFailure) {
        armProbe()
        guard failingSince == nil else { return }
        failingSince = loop.now
        health.withLock { $0.failure = error.description }
        log.error("the store cannot be written", [.error: .described(error), .path: .text(path)])
    }

    private func armProbe() {
        if probeTimer == nil {
            probeTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.probe() } }
        }
        if probeTimer?.deadline == nil { probeTimer?.arm(at: loop.now + settings.probeInterval) }
    }

    private func probe() {
        guard let since = failingSince else { return }
        do throws(SQLiteFailure) {
            try findRoom()
        } catch {
            dropConnection()
            return armProbe()
        }
        let (waiting, lost) = (deferred.count, deferred.lost)
        if waiting > 0, !write(StoreIntake.Batch()) { return }
        failingSince = nil
        health.withLock { $0.failure = nil }
        log.notice(
            "the store can be written again",
            [
                .duration: .duration(loop.now - since), .count: .number(waiting), .suppressed: .number(lost),
                .path: .text(path),
            ])
    }

    /// Writes a few bytes to test the disk, so that no real change is lost in the test.
    private func findRoom() throws(SQLiteFailure) {
        let connection = try openConnection()
        try SQLiteFailure.wrapping { () throws(SQLError) in
            // After a complete copy of the write-ahead log, SQLite overwrites the log from its beginning and needs no
            // more room.
            _ = try? connection.checkpoint(.passive)
            try connection.takeRoom(settings.probeSize)
        }
        try keepInPlace(connection)
    }

    // MARK: Checkpoints

    /// Starts a checkpoint when the write-ahead log is long. The checkpointer's thread copies most pages of the log:
    /// see ``checkpointFinished()``.
    private func startCheckpointIfDue() {
        guard !isCheckpointing, let connection, connection.pagesInLog >= settings.checkpointPages else { return }
        isCheckpointing = true
        checkpointer.start { [loop] in loop.post { self.assumeIsolated { $0.checkpointFinished() } } }
    }

    /// Between two transactions, copies the few pages that were added to the log during the checkpoint. SQLite reuses
    /// the log only after all pages are copied. The checkpointer's thread cannot copy the last pages while changes
    /// arrive.
    private func checkpointFinished() {
        isCheckpointing = false
        _ = try? connection?.checkpoint(.passive)
    }
}
