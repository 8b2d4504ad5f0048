import Foundation
package import Persistence
import PostgreSQLClient
package import Reactor
import Storage
package import Telemetry
import TestSupport

/// The store of one test, in a folder that is removed at the latest when the object is released.
///
/// If the environment names a private PostgreSQL server, the store is in a schema of its own on this server.
package final class StoreFolder: Sendable {
    private let home: TemporaryFolder
    package var folder: String { home.path }
    package var path: String { home.file("store.db") }
    /// The store's database; `nil` if the store is a SQLite file.
    package let database: PostgreSQLPlace?
    /// The name of the schema in the database.
    private let schema: String
    /// The connection string of the store's database.
    package let connection: String

    /// Creates an empty store, on the PostgreSQL server with the connection string `server`, or in a SQLite file.
    package init(on server: String? = StoreFolder.server) throws {
        home = try TemporaryFolder()
        schema = "test_\(getpid())_\(UInt64.random(in: .min ... .max))"
        guard let server else {
            (database, connection) = (nil, "")
            return
        }
        connection = "\(server) options='-c search_path=\(schema)'"
        var place = try PostgreSQLPlace(connection)
        // A test can open a store while another connection writes it.
        place.isExclusive = false
        database = place
        try execute("CREATE SCHEMA \(schema)")
    }

    deinit { if database != nil { try? execute("DROP SCHEMA \(schema) CASCADE") } }

    /// The connection string of a private PostgreSQL server, on which the tests of the store run; `nil` for SQLite.
    package static let server: String? = ProcessInfo.processInfo.environment["SIPPUSHD_TEST_POSTGRESQL"]
    package static var isSQLite: Bool { server == nil }

    /// The settings of the store for a configuration file.
    package var settings: String {
        database == nil ? "store: \(path)" : "store: \(path)\npostgresql:\n  connection: \"\(connection)\""
    }

    package func remove() { home.remove() }

    // MARK: Opening

    /// Opens the store as the daemon does.
    package func open(calls: String? = nil, loop: EventLoop, log: Log = .silent) throws -> DatabaseStore {
        try place.open(callsFolder: calls, loop: loop, log: log)
    }

    /// Opens the store as a command does, while nobody else has opened it.
    package func opened() throws -> CommandStore { try place.opened() }

    package var place: StorePlace { database.map { .postgreSQL($0, beside: path) } ?? .file(path) }

    /// Writes changes into the store as a command does.
    package func keep(_ changes: [ServiceChange]) throws { try opened().keep(changes) }

    // MARK: Looking

    /// Runs one SQL statement without a result.
    package func execute(_ sql: String) throws {
        guard database != nil else { return try Connection(path: path).execute(sql) }
        let connection = try connected()
        try connection.send(text: sql)
        try connection.finish()
    }

    /// The number that a query returns.
    package func number(_ sql: String) throws -> Int64 {
        guard database != nil else {
            var options = ConnectionOptions()
            options.access = .readOnly
            return try Connection(path: path, options: options).integer(sql) ?? 0
        }
        let connection = try connected()
        try connection.send(text: sql)
        return try connection.result()[0].integer(0)
    }

    private func connected() throws -> PreparedConnection {
        let servers = try PostgreSQLServer.servers(of: connection, [])
        return try PreparedConnection(
            servers[0], opensWithin: .seconds(60), answersWithin: .seconds(60))
    }

    /// Opens the store as a command does, and lets SQLite check the whole file.
    ///
    /// - Returns: the problems that SQLite finds.
    package func integrityProblems() throws -> [String] {
        _ = try opened()
        return database == nil ? try Connection(path: path).integrityProblems() : []
    }

    /// Counts the rows in each table, even while another connection writes.
    package func rowCounts() throws -> [String: Int64] {
        guard database != nil else { return try Self.rowCounts(path) }
        var counts: [String: Int64] = [:]
        for table in ["binding", "bucket_entry", "push_record", "refused_request", "provider_switch"] {
            counts[table] = try number("SELECT count(*) FROM \(table)")
        }
        return counts
    }

    /// Counts the rows in each table of a SQLite file.
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
