package import PushDelivery
package import Reactor
package import Telemetry

/// The place of the store, which is a SQLite file, or a PostgreSQL database with some local files.
package enum StorePlace: Sendable {
    case file(String)
    /// The call journal and the log of events are beside the path.
    case postgreSQL(PostgreSQLPlace, beside: String)

    /// The file or server of the store, as messages name it.
    package var name: String {
        switch self {
        case .file(let path): path
        case .postgreSQL(let address, _): address.name
        }
    }

    /// Whether the store's file does not exist yet. A database always exists.
    package var isMissing: Bool {
        if case .file(let path) = self { SQLiteFile.isMissing(at: path) } else { false }
    }

    /// Opens the store for the daemon.
    ///
    /// - Parameters:
    ///   - callsFolder: the folder of the call journal; `nil` for a folder beside the store's path.
    ///   - timeline: the settings of the timeline.
    ///   - loop: the loop on which the store is used.
    ///   - log: receives messages about later failures of the store.
    /// - Returns: the open store.
    /// - Throws: an error if the store cannot be used.
    package func open(
        callsFolder: String?, timeline: TimelineSettings = TimelineSettings(), loop: EventLoop, log: Log
    ) throws(StoreError) -> DatabaseStore {
        switch self {
        case .file(let path):
            try DatabaseStore(path: path, callsFolder: callsFolder, timeline: timeline, loop: loop, log: log)
        case .postgreSQL(let address, let path):
            try DatabaseStore(
                postgreSQL: address, beside: path, callsFolder: callsFolder, timeline: timeline, loop: loop, log: log)
        }
    }

    /// Opens the store for a command.
    package func opened() throws(StoreError) -> CommandStore {
        switch self {
        case .file(let path): try CommandStore(path: path)
        case .postgreSQL(let address, _): try CommandStore(postgreSQL: address)
        }
    }

    /// Copies the store into a file, as a running daemon does.
    ///
    /// - Returns: the size of the copy in bytes.
    package func backUp(to file: String) throws(StoreError) -> Int {
        guard case .file(let path) = self else { throw StoreError(BackupFailure.ownBackups) }
        return try SQLiteFile.backUp(path, to: file)
    }
}

extension BackupFailure {
    /// The answer to an order for a backup of a store in PostgreSQL.
    static let ownBackups =
        "the store is in PostgreSQL: back it up with pg_dump, or with the backups of the server (docs/PostgreSQL.md)"
}
