import Reactor
import Registration
import Storage
package import Telemetry
import Timekeeping

/// Writes the store's SQLite file for a ``StoreSession``.
///
/// After a failed transaction, the file is opened again, because the state of the disk is unknown.
///
/// - The class is `@unchecked Sendable`, because only the session's thread uses it.
final class SQLiteDatabase: StoreDatabase, @unchecked Sendable {
    private let loop: EventLoop
    private let path: String
    private let settings: StoreWriterSettings
    private let checkpointLoop: EventLoop
    private let checkpointer: StoreCheckpointer
    private let log: Log

    private var connection: Connection?
    /// The identities of the store's files when the connection was opened.
    private var files: StoreFiles?
    /// Whether the write-ahead log was removed, so that only the writer's connection still has the log's contents.
    private var holdsRemovedLog = false
    private var isCheckpointing = false

    /// Opens the store, migrates it to this program's schema, and starts the thread of checkpoints.
    init(path: String, settings: StoreWriterSettings, loop: EventLoop, log: Log) throws(SQLiteFailure) {
        (self.path, self.settings, self.loop, self.log) = (path, settings, loop, log)
        _ = try Connection.openStore(path, mayCreate: true)
        do throws(SystemError) {
            checkpointLoop = try EventLoop()
            checkpointer = StoreCheckpointer(loop: checkpointLoop, path: path)
            checkpointer.open()
            try checkpointLoop.start(name: "checkpoint", givesWay: true)
        } catch {
            throw .system("\(error)")
        }
    }

    var place: String { path }
    var lookInterval: Duration { settings.fileCheckInterval }
    var probeInterval: Duration { settings.probeInterval }
    var isAway: Bool { false }

    // MARK: Writing

    func write(
        _ waiting: [StoreIntake.Entry], _ batch: StoreIntake.Batch
    ) throws(StoreFailure) -> Set<StoreTicket> {
        try attempt { () throws(SQLiteFailure) in
            let connection = try openConnection()
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
            return missing
        }
    }

    /// Writes a few bytes to test the disk, so that no real change is lost in the test.
    func probe() throws(StoreFailure) {
        try attempt { () throws(SQLiteFailure) in
            let connection = try openConnection()
            try SQLiteFailure.wrapping { () throws(SQLError) in
                // After a complete copy of the write-ahead log, SQLite overwrites the log from its beginning and needs
                // no more room.
                _ = try? connection.checkpoint(.passive)
                try connection.takeRoom(settings.probeSize)
            }
            try keepInPlace(connection)
        }
    }

    /// Checks the files even while no changes are written, because the next start must find all earlier changes.
    func look() throws(StoreFailure) {
        try attempt { () throws(SQLiteFailure) in try keepInPlace(try openConnection()) }
    }

    /// Leaves the store as one file.
    func close() {
        checkpointer.close()
        checkpointLoop.stop()
        checkpointLoop.join()
        _ = try? connection?.checkpoint(.truncate)
        connection = nil
    }

    // MARK: The connection

    private func attempt<Result>(_ body: () throws(SQLiteFailure) -> Result) throws(StoreFailure) -> Result {
        do throws(SQLiteFailure) {
            return try body()
        } catch {
            dropConnection()
            throw StoreFailure(reason: error.description, isOfSystem: error.isOfSystem)
        }
    }

    private func openConnection() throws(SQLiteFailure) -> Connection {
        if let connection { return connection }
        if let files, files.database != StoreFiles(path).database { throw .replaced }
        let opened = try Connection.openStore(path, mayCreate: false)
        files = StoreFiles(path)
        connection = opened
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

    // MARK: Checkpoints

    /// Starts a checkpoint when the write-ahead log is long. The checkpointer's thread copies most pages of the log:
    /// see ``checkpointFinished()``.
    func committed() {
        guard !isCheckpointing, let connection, connection.pagesInLog >= settings.checkpointPages else { return }
        isCheckpointing = true
        checkpointer.start { [self] in loop.post { self.checkpointFinished() } }
    }

    /// Copies the few pages that were added during the checkpoint, between two transactions. SQLite reuses the log only
    /// after all pages are copied; while changes arrive, the checkpointer's thread never gets that far.
    private func checkpointFinished() {
        isCheckpointing = false
        _ = try? connection?.checkpoint(.passive)
    }
}

extension StoreWriter {
    /// Opens the store's SQLite file, migrates it to this program's schema, and starts the threads.
    ///
    /// - Parameters:
    ///   - path: the database file.
    ///   - settings: how the writer gathers changes into transactions.
    ///   - log: receives messages about later failures.
    ///   - onResults: receives the results of each commit on the writer's thread, in the order of submission.
    /// - Throws: an error if the store cannot be used.
    package convenience init(
        path: String, settings: StoreWriterSettings = StoreWriterSettings(), log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) throws(SQLiteFailure) {
        let loop: EventLoop
        do throws(SystemError) { loop = try EventLoop() } catch { throw .system("\(error)") }
        let database = try SQLiteDatabase(path: path, settings: settings, loop: loop, log: log)
        self.init(database, on: loop, settings: settings, log: log, onResults: onResults)
        do throws(SystemError) { try start() } catch { throw .system("\(error)") }
    }
}
