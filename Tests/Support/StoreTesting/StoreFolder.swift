package import Persistence
import Storage
import TestSupport

/// A folder with the store of one test, removed at the latest when the object is released.
package final class StoreFolder: Sendable {
    private let home: TemporaryFolder
    package var folder: String { home.path }
    package var path: String { home.file("store.db") }

    package init() throws { home = try TemporaryFolder() }

    package func remove() { home.remove() }

    /// Writes changes into the store as a command does, while nobody else has opened it.
    package func keep(_ changes: [ServiceChange]) throws { try SQLiteFile(path: path).keep(changes) }

    /// Opens the store as a command does, and lets SQLite check the whole file.
    ///
    /// - Returns: the problems that SQLite finds.
    package func integrityProblems() throws -> [String] {
        _ = try SQLiteFile(path: path)
        return try Connection(path: path).integrityProblems()
    }

    /// Counts the rows in each table, even while another connection writes.
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
