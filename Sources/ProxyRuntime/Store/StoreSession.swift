internal import Reactor
internal import Registration
internal import Storage
internal import Telemetry
internal import Timekeeping

/// The writer's thread: takes what waits, commits it in one transaction, tells the results.
///
/// While one commit is on its way to the disk the next changes gather, so the more there is to do, the more a sync
/// carries. After a failed commit nobody knows what the disk holds: everything in it is reported as not stored and the
/// database is opened anew for the next batch.
actor StoreSession {
    private let loop: EventLoop  // stored: the executor reference below is unowned
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private let settings: StoreWriterSettings
    private let intake: Locked<StoreIntake>
    private let figures: Locked<CounterSet>
    private let checkpointer: StoreCheckpointer
    private let log: Log
    private let onResults: @Sendable ([StoreResult]) -> Void

    private var connection: Connection?
    private var gatherTimer: LoopTimer?
    private var lazyTimer: LoopTimer?
    private var isLazyDue = false
    private var isCheckpointing = false
    private var failureLimit = LogRateLimit(burst: 3, per: .seconds(60))

    init(
        loop: EventLoop, path: String, settings: StoreWriterSettings, intake: Locked<StoreIntake>,
        figures: Locked<CounterSet>, checkpointer: StoreCheckpointer, log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) {
        self.loop = loop
        self.path = path
        self.settings = settings
        self.intake = intake
        self.figures = figures
        self.checkpointer = checkpointer
        self.log = log
        self.onResults = onResults
    }

    static func open(_ path: String) throws(StoreError) -> Connection {
        var options = ConnectionOptions()
        options.autoCheckpoint = 0
        let connection = try StoreError.wrapping { () throws(SQLError) in
            try Connection(path: path, options: options)
        }
        try StoreSchema.prepare(connection, mayMigrate: true)
        return connection
    }

    // MARK: What happened

    /// Changes wait that nobody waits for; they go with the next that somebody does, or when their time is over.
    func changesGather() {
        if gatherTimer == nil {
            gatherTimer = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.changesArrived() } }
        }
        guard let gatherTimer else { return changesArrived() }
        if gatherTimer.deadline == nil { gatherTimer.arm(at: loop.now + settings.gatherInterval) }
    }

    /// Changes wait. One batch for each call; posts itself again while there are more.
    func changesArrived() {
        let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: isLazyDue) }
        write(batch)
        guard intake.withLock({ $0.count > 0 }) else { return }
        loop.post { self.assumeIsolated { $0.changesArrived() } }
    }

    /// The first lazy row waits.
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
        lazyTimer = nil
        while true {
            let batch = intake.withLock { $0.take(limit: settings.batchLimit, withLazyRows: true) }
            guard !batch.isEmpty else { break }
            // Lazy rows that fail now would come back for ever.
            if !write(batch), batch.entries.isEmpty { break }
        }
        _ = try? connection?.checkpoint(.truncate)
        connection = nil
    }

    // MARK: Writing

    @discardableResult
    private func write(_ batch: StoreIntake.Batch) -> Bool {
        guard !batch.isEmpty else { return true }
        let start = loop.now
        let missing = commit(batch)
        let isStored = missing != nil
        let duration = loop.now - start
        figures.withLock { figures in
            figures.count(isStored ? .storeChange : .storeFailure, by: UInt64(batch.changeCount))
            guard isStored else { return }
            figures.count(.storeCommit)
            figures.observe(.storeCommit, duration)
        }
        if !batch.entries.isEmpty {
            onResults(
                batch.entries.map { entry in
                    StoreResult(
                        ticket: entry.ticket, isStored: isStored, isFound: missing?.contains(entry.ticket) != true)
                })
        }
        if isStored {
            finishLazyRows()
            startCheckpointIfDue()
        } else {
            intake.withLock { $0.restore(batch.lazyRows) }
            // Not again before the next interval.
            isLazyDue = false
            if intake.withLock({ $0.lazyCount > 0 }) { lazyRowsArrived() }
        }
        return isStored
    }

    private func finishLazyRows() {
        guard isLazyDue else { return }
        let (lazyCount, count) = intake.withLock { ($0.lazyCount, $0.count) }
        if lazyCount == 0 {
            isLazyDue = false
        } else if count == 0 {
            loop.post { self.assumeIsolated { $0.changesArrived() } }
        }
    }

    /// - Returns: whose rows were not there; `nil` when nothing was stored.
    private func commit(_ batch: StoreIntake.Batch) -> Set<StoreTicket>? {
        do throws(StoreError) {
            let connection = try openConnection()
            return try StoreError.wrapping { () throws(SQLError) -> Set<StoreTicket> in
                try connection.transaction { () throws(SQLError) -> Set<StoreTicket> in
                    var missing: Set<StoreTicket> = []
                    for entry in batch.entries {
                        for change in entry.changes {
                            if !(try connection.apply(change)) { missing.insert(entry.ticket) }
                        }
                    }
                    for row in batch.lazyRows { _ = try connection.apply(.binding(.upsert(row))) }
                    return missing
                }
            }
        } catch {
            connection = nil
            if let suppressed = failureLimit.admit(now: loop.now) {
                log.error(
                    "store cannot be written",
                    [
                        .error: .described(error), .path: .text(path), .count: .number(batch.changeCount),
                        .suppressed: .number(suppressed),
                    ])
            }
            return nil
        }
    }

    private func openConnection() throws(StoreError) -> Connection {
        if let connection { return connection }
        let opened = try Self.open(path)
        connection = opened
        return opened
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
