import Collections
import ProxyCore
import Reactor
import Registration
import Storage
import Telemetry
import Timekeeping

/// What the writer's thread does: it takes the changes that wait, commits them in one transaction, and tells the
/// results.
///
/// While one commit is on its way to the disk the next changes gather, and under load a commit begins some time after the
/// one before: so the more there is to do, the more a sync carries.
///
/// After a failed commit nobody knows what the disk holds: everything in it that somebody waits for is reported as not
/// stored, and the database is opened anew for the next batch. What nobody waits for stays, in its order. Until a probe has found room the store counts as failing, which is said once, and its end is.
actor StoreSession {
    private let loop: EventLoop  // stored: the executor reference below is unowned
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
    /// Until it fires, changes wait for the next commit's turn.
    private var turnTimer: LoopTimer?
    private var turns: CommitTurns
    private var lazyTimer: LoopTimer?
    private var isLazyDue = false
    private var isCheckpointing = false
    /// Since when changes cannot be written.
    private var failingSince: Instant?
    private var probeTimer: LoopTimer?
    private var deferred = DeferredChanges()
    /// The files that the connection writes to, as they were named when it was opened.
    private var files: StoreFiles?
    private var fileTimer: LoopTimer?
    /// Whether somebody has removed the write-ahead log, so that only this connection has what was in it.
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

    // MARK: What happened

    /// Looks at the disk once at the start, so that a full one is reported at once, and not when the first phone was
    /// refused.
    func started() {
        do throws(SQLiteFailure) {
            try findRoom()
        } catch {
            dropConnection()
            noteFailure(error)
        }
    }

    /// There are changes that nobody waits for. They are written with the next that somebody waits for, or after a
    /// while.
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

    /// There are changes to write, when it is their turn.
    func changesArrived() {
        guard loop.now < turns.next else { return writeNext() }
        if turnTimer == nil {
            turnTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.writeNext() } }
        }
        guard let turnTimer else { return writeNext() }
        turnTimer.arm(at: turns.next)
    }

    /// As many changes wait as a commit had lately: no more are waited for.
    func companyArrived() {
        // A turn may have come since it was told.
        if intake.withLock({ $0.isInCompany }) { writeNext() } else { changesArrived() }
    }

    /// Writes one batch, and posts another call while there are more.
    private func writeNext() {
        turnTimer?.disarm()
        let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: isLazyDue) }
        turns.began(for: batch.entries.count { $0.ticket != nil }, now: loop.now)
        write(batch)
        // What is left has waited for its turn already; what came meanwhile calls by itself.
        if batch.leavesEntries { loop.post { self.assumeIsolated { $0.writeNext() } } }
    }

    /// Writes what waits, without gathering and turns. While the disk takes no changes they go on waiting.
    func writeWaiting() {
        for _ in 0...settings.queueLimit / settings.batchLimit {
            guard intake.withLock({ $0.count > 0 }) else { return }
            writeNext()
        }
    }

    /// To be called when the first lazy row waits.
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

    /// The last call: writes everything that waits and leaves one file.
    func stopped() {
        gatherTimer = nil
        turnTimer = nil
        lazyTimer = nil
        probeTimer = nil
        fileTimer = nil
        while true {
            let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: true) }
            guard !batch.isEmpty else { break }
            // Lazy rows that fail now would come back for ever.
            if !write(batch), batch.entries.isEmpty { break }
        }
        if deferred.count > 0 { write(StoreIntake.Batch()) }
        if deferred.count > 0 { log.error("changes were lost", [.count: .number(deferred.count), .path: .text(path)]) }
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

    /// `missing` are the tickets whose rows were not there; it is `nil` when nothing was stored.
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
        /// All is on the disk. `missing` are the tickets whose rows were not there, `delayed` is how many changes had
        /// waited since an earlier failure.
        case stored(missing: Set<StoreTicket>, delayed: Int)
        case failed(SQLiteFailure)
    }

    /// Commits a batch, after the changes that had to wait.
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

    /// What was committed must be where the next start looks for it, before anybody is told.
    private func keepInPlace(_ connection: Connection) throws(SQLiteFailure) {
        let found = StoreFiles(path)
        guard found != files else { return }
        guard found.database == files?.database else { throw .replaced }
        // The log that this connection still holds goes into the file; a long reader or a full disk may be in the way.
        holdsRemovedLog = true
        try SQLiteFailure.wrapping { () throws(SQLError) in
            let (logged, copied) = try connection.checkpoint(.truncate)
            guard logged == copied else { throw SQLError(code: .busy, message: "the log could not be saved") }
        }
        holdsRemovedLog = false
        files = nil
        log.error("somebody removed the store's write-ahead log; what was in it is saved", [.path: .text(path)])
        self.connection = nil
        checkpointer.reopen()
    }

    /// After a failure the next change opens the database anew.
    private func dropConnection() {
        if !holdsRemovedLog { connection = nil }
    }

    private func armFileCheck() {
        if fileTimer == nil {
            fileTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.checkFiles() } }
        }
        fileTimer?.arm(at: loop.now + settings.fileCheckInterval)
    }

    /// Checks the files, even while nothing is written, because the next start must find what was written before.
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
        // Changes that fail because of their statements would fail for ever.
        if isOver {
            deferred.clear()
        } else {
            deferred.add(batch.entries.filter { $0.ticket == nil }, limit: settings.deferralLimit)
        }
        report(batch.entries.filter { isOver || $0.ticket != nil }, missing: nil)
        intake.withLock { $0.restore(batch.lazyRows) }
        // Lazy rows are not written again before the next interval.
        isLazyDue = false
        if intake.withLock({ $0.lazyCount > 0 }) { lazyRowsArrived() }
        noteFailure(error)
    }

    private func noteFailure(_ error: SQLiteFailure) {
        armProbe()
        guard failingSince == nil else { return }
        failingSince = loop.now
        health.withLock { $0.failure = error.description }
        log.error("store cannot be written", [.error: .described(error), .path: .text(path)])
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
            "store can be written again",
            [
                .duration: .duration(loop.now - since), .count: .number(waiting), .suppressed: .number(lost),
                .path: .text(path),
            ])
    }

    /// Tries whether there is room for some changes, so that nobody's have to be lost to find out.
    private func findRoom() throws(SQLiteFailure) {
        let connection = try openConnection()
        try SQLiteFailure.wrapping { () throws(SQLError) in
            // A log that is copied to its end starts again from the beginning, which needs no room.
            _ = try? connection.checkpoint(.passive)
            try connection.takeRoom(settings.probeSize)
        }
        try keepInPlace(connection)
    }

    // MARK: Checkpoints

    /// The bulk is copied on another thread; see ``checkpointFinished()``.
    private func startCheckpointIfDue() {
        guard !isCheckpointing, let connection, connection.pagesInLog >= settings.checkpointPages else { return }
        isCheckpointing = true
        checkpointer.start { [loop] in loop.post { self.assumeIsolated { $0.checkpointFinished() } } }
    }

    /// Only a log that is copied to its end starts again from the beginning, and while changes come in the other thread
    /// never sees the end. So the few pages of the meantime are copied here, between two transactions.
    private func checkpointFinished() {
        isCheckpointing = false
        _ = try? connection?.checkpoint(.passive)
    }
}
