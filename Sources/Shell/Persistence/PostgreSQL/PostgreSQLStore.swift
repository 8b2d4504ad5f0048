package import PushDelivery
package import Reactor
package import Telemetry

extension DatabaseStore {
    /// Opens the store in a PostgreSQL database, which only one daemon uses at a time, and migrates the database to
    /// this program's schema. The journal of calls stays in local files.
    ///
    /// - Parameters:
    ///   - address: the database.
    ///   - path: the path beside which the local files are.
    ///   - callsFolder: the folder of the call journal; `nil` for a folder next to `path`.
    ///   - settings: the settings of the timeline.
    ///   - loop: the loop on which the store is used.
    ///   - log: receives messages about later failures of the store.
    /// - Throws: an error if the database does not answer, or another daemon uses it.
    package convenience init(
        postgreSQL address: PostgreSQLPlace, beside path: String, callsFolder: String? = nil,
        timeline settings: TimelineSettings = TimelineSettings(), loop: EventLoop, log: Log
    ) throws(StoreError) {
        let lock = try StoreLock(beside: path, for: .daemon)
        let outcomes = StoreOutcomes(log: log)
        let (parts, database): (Parts, PostgreSQLDatabase)
        do {
            (parts, database) = try Self.parts(address, lock, outcomes, loop, log)
        } catch {
            lock.release()
            throw error
        }
        try self.init(
            parts, outcomes: outcomes, calls: callsFolder ?? path + "-calls", isShared: callsFolder != nil,
            timeline: settings, loop: loop, log: log)
        findShortcoming = { database.shortcoming }
        guard let name = address.node else { return }
        do throws(PostgreSQLFailure) {
            nodes = try PostgreSQLNodes(address, name: name, log: log)
        } catch {
            throw StoreError(address.name, error)
        }
    }

    private static func parts(
        _ address: PostgreSQLPlace, _ lock: StoreLock, _ outcomes: StoreOutcomes, _ loop: EventLoop, _ log: Log
    ) throws(StoreError) -> (Parts, PostgreSQLDatabase) {
        let (database, tables): (PostgreSQLDatabase, PostgreSQLTables)
        do throws(PostgreSQLFailure) {
            database = try PostgreSQLDatabase(address, log: log)
            tables = try address.open()
        } catch {
            throw StoreError(address.name, error)
        }
        let key = try JournalKey.stored(in: tables, of: address.name)
        let uncounted: Int64
        do { uncounted = try tables.uncountedRecords() } catch { throw StoreError(address.name, error) }
        do throws(SystemError) {
            let writer = StoreWriter(database, on: try EventLoop(), log: log) { outcomes.post($0, to: loop) }
            try writer.start()
            let parts = Parts(
                lock: lock, writer: writer, reader: try StoreReader(PostgreSQLSource(address), thread: "queries"),
                backups: nil, uncounted: Int(clamping: max(0, uncounted)), journalKey: key)
            return (parts, database)
        } catch {
            throw StoreError("cannot start a thread for the store: \(error)")
        }
    }
}

extension StoreWriter {
    /// Opens the store's PostgreSQL database, migrates it to this program's schema, and starts the thread.
    package convenience init(
        postgreSQL address: PostgreSQLPlace, settings: StoreWriterSettings = StoreWriterSettings(), log: Log,
        onResults: @escaping @Sendable ([StoreResult]) -> Void
    ) throws(StoreError) {
        let database: PostgreSQLDatabase
        do throws(PostgreSQLFailure) {
            database = try PostgreSQLDatabase(address, log: log)
        } catch {
            throw StoreError(address.name, error)
        }
        do throws(SystemError) {
            self.init(database, on: try EventLoop(), settings: settings, log: log, onResults: onResults)
            try start()
        } catch {
            throw StoreError("cannot start a thread for the store: \(error)")
        }
    }
}
