package import Storage

/// Why SQLite cannot use the store's file.
package enum SQLiteFailure: Error, Hashable, Sendable, CustomStringConvertible {
    case sql(SQLError)
    case migration(MigrationError)
    /// The store's path now leads to another file, or to no file.
    case replaced
    /// A thread or an event loop could not be created.
    case system(String)

    package var description: String {
        switch self {
        case .sql(let error): error.description
        case .migration(let error): error.description
        case .replaced:
            "the file was removed or replaced while the daemon uses it; put it back, or restore a backup"
        case .system(let problem): problem
        }
    }
}

extension SQLiteFailure {
    /// Whether the machine caused the failure, for example by a full disk, and not the changes.
    var isOfSystem: Bool {
        switch self {
        case .sql(let error), .migration(.failed(_, let error)): error.isOfSystem
        case .replaced, .system: true
        case .migration: false
        }
    }

    static func wrapping<Result>(_ body: () throws(SQLError) -> Result) throws(SQLiteFailure) -> Result {
        do {
            return try body()
        } catch {
            throw .sql(error)
        }
    }
}
