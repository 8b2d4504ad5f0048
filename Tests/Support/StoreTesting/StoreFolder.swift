package import Persistence
import Storage
import TestSupport

/// A folder of its own, with the path of a store in it. It is removed together with the object, or earlier.
package final class StoreFolder: Sendable {
    private let home: TemporaryFolder
    package var folder: String { home.path }
    package var path: String { home.file("store.db") }

    package init() throws { home = try TemporaryFolder() }

    package func remove() { home.remove() }

    /// Writes changes as a command does. Nobody else may have the store open.
    package func keep(_ changes: [ServiceChange]) throws { try SQLiteFile(path: path).keep(changes) }

    /// Opens the file as a command does, and lets SQLite check all of it.
    ///
    /// - Returns: the problems that SQLite finds; empty if there are none.
    package func integrityProblems() throws -> [String] {
        _ = try SQLiteFile(path: path)
        return try Connection(path: path).integrityProblems()
    }

    /// How many rows each table has. It also works while somebody writes.
    package func rowCounts() throws -> [String: Int64] { try Self.rowCounts(path) }

    package static func rowCounts(_ path: String) throws -> [String: Int64] {
        var options = ConnectionOptions()
        options.access = .readOnly
        let connection = try Connection(path: path, options: options)
        let tables = try connection.statement("SELECT name FROM sqlite_master WHERE type = 'table'")
        var names: [String] = []
        while try tables.step() { names.append(tables.text(0)) }
        var counts: [String: Int64] = [:]
        for name in names { counts[name] = try connection.integer("SELECT count(*) FROM \"\(name)\"") }
        return counts
    }
}
