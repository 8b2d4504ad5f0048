package import PushDelivery
package import Reactor
import Storage
package import Telemetry

extension DatabaseStore {
    /// Opens or creates the store's SQLite file, which only one daemon uses at a time, and migrates the file to this
    /// program's schema.
    ///
    /// - Parameters:
    ///   - path: the path of the store's file.
    ///   - callsFolder: the folder of the call journal; `nil` for a folder next to the store.
    ///   - settings: the settings of the timeline.
    ///   - loop: the loop on which the store is used.
    ///   - log: receives messages about later failures of the store.
    /// - Throws: an error if the store cannot be used, for example because another process uses it.
    package convenience init(
        path: String, callsFolder: String? = nil, timeline settings: TimelineSettings = TimelineSettings(),
        loop: EventLoop, log: Log
    ) throws(StoreError) {
        let lock = try StoreLock(store: path, for: .daemon)
        let outcomes = StoreOutcomes(log: log)
        let parts: Parts
        do {
            parts = try Self.parts(path, lock, outcomes, loop, log)
        } catch {
            lock.release()
            throw error
        }
        try lock.storeIsMade()
        if lock.isNewStore {
            log.notice("the store did not exist; the daemon created a new store", [.path: .text(path)])
        }
        try self.init(
            parts, outcomes: outcomes, calls: callsFolder ?? path + "-calls", isShared: callsFolder != nil,
            timeline: settings, loop: loop, log: log)
    }

    private static func parts(
        _ path: String, _ lock: StoreLock, _ outcomes: StoreOutcomes, _ loop: EventLoop, _ log: Log
    ) throws(StoreError) -> Parts {
        let (tables, uncounted, writer): (Connection, Int64, StoreWriter)
        do throws(SQLiteFailure) {
            tables = try Connection.openStore(path, mayCreate: true)
            uncounted = try SQLiteFailure.wrapping { () throws(SQLError) in try tables.uncountedRecords() }
        } catch {
            throw StoreError(path, error)
        }
        let key = try JournalKey.stored(in: tables, of: path)
        do throws(SQLiteFailure) {
            writer = try StoreWriter(path: path, log: log) { outcomes.post($0, to: loop) }
        } catch {
            throw StoreError(path, error)
        }
        do throws(SystemError) {
            return Parts(
                lock: lock, writer: writer, reader: try StoreReader(SQLiteSource(path: path), thread: "queries"),
                backups: try StoreBackups(path: path), uncounted: Int(clamping: max(0, uncounted)), journalKey: key)
        } catch {
            throw StoreError("cannot start a thread for reading the store: \(error)")
        }
    }
}
