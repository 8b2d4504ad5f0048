import Glibc
import PostgreSQLClient
import ProxyCore
import Reactor
import Registration
import Telemetry
import Timekeeping

/// Writes the store's PostgreSQL database for a ``StoreSession``.
///
/// After a failure, the server counts as away: changes fail at once, until a test has opened a new connection.
///
/// - The class is `@unchecked Sendable`, because only the session's thread uses it, except for the locked values.
final class PostgreSQLDatabase: StoreDatabase, @unchecked Sendable {
    private let address: PostgreSQLPlace
    private let log: Log
    private var lock: PostgreSQLLock
    private var tables: PostgreSQLTables?
    /// The identity of the store at the start, so that no other database takes its place.
    private let identity: String
    /// Why the server is away; `nil` if it is not.
    private let failure = Locked<StoreFailure?>(nil)
    private let weakness = Locked<PostgreSQLDurability.Shortcoming?>(nil)
    private var unconfirmed = UnconfirmedRows()
    /// The schema of a newer program that was last noted in the log.
    private var notedSchema = PostgreSQLSchema.migrations.count

    /// Connects to the database, migrates it to this program's schema, and takes the store's lock.
    ///
    /// - Throws: why the database cannot be used.
    init(_ address: PostgreSQLPlace, log: Log) throws(PostgreSQLFailure) {
        (self.address, self.log) = (address, log)
        lock = PostgreSQLLock(of: address.node)
        let tables = try Self.migrated(address, &lock, log)
        let found = try PostgreSQLSchema.identity(in: tables)
        identity = found.store
        noteUpgrade(found.state)
        try prepare(tables)
        tables.connection.limit = address.times.write
        tables.patience = address.times.write
        self.tables = tables
    }

    /// Opens a connection, takes the lock, and migrates the tables. While other programs use the tables, the migration is
    /// tried again and again, because a statement that waits for a lock stops the other nodes.
    private static func migrated(
        _ address: PostgreSQLPlace, _ lock: inout PostgreSQLLock, _ log: Log
    ) throws(PostgreSQLFailure) -> PostgreSQLTables {
        let end = ContinuousClock.now + address.times.lock
        var hasWaited = false
        while true {
            let tables = try address.open()
            if address.isExclusive { try lock.take(on: tables, patience: address.times.lock) }
            do throws(PostgreSQLFailure) {
                let found = try PostgreSQLSchema.migrate(tables)
                if found.number > 0, found.number < PostgreSQLSchema.migrations.count { told(found, address, log) }
                return tables
            } catch {
                guard case .busyTables(let reason) = error, ContinuousClock.now < end else { throw error }
                if !hasWaited {
                    log.notice(
                        "other programs use the tables of the database, so their migration is tried again",
                        [.reason: .text(reason.sentence), .path: .text(address.name)])
                }
                hasWaited = true
                usleep(Self.pause)
            }
        }
    }

    /// The pause between two tries of a migration, in microseconds.
    private static let pause: UInt32 = 1_000_000

    /// Notes a migration of this program.
    private static func told(_ found: PostgreSQLSchema.State, _ address: PostgreSQLPlace, _ log: Log) {
        log.notice(
            "the database has been migrated",
            [
                .version: .text("schema \(found.number) to \(PostgreSQLSchema.migrations.count)"),
                .path: .text(address.name),
            ])
    }

    /// Notes once that a newer program has migrated the database.
    private func noteUpgrade(_ found: PostgreSQLSchema.State) {
        guard found.number > notedSchema else { return }
        notedSchema = found.number
        log.notice(
            "another node has migrated the database, so upgrade this node too",
            [
                .version: .text("schema \(found.number), here \(PostgreSQLSchema.migrations.count)"),
                .path: .text(place),
            ])
    }

    var place: String { address.name }
    var lookInterval: Duration { address.times.look }
    /// The pause between two connection attempts. Different daemons take different pauses, so that they do not all
    /// connect to a restarted server at the same time. With several servers, the pause is short, because a standby can
    /// be promoted within a second.
    var probeInterval: Duration {
        .milliseconds(Int.random(in: address.servers.count > 1 ? 200...400 : 1000...1500))
    }
    var isAway: Bool { failure.withLock { $0 != nil } }
    /// Why the database can lose confirmed changes; `nil` if it cannot.
    var shortcoming: String? { weakness.withLock { $0.map { "\($0.reason); \($0.cure)" } } }

    // MARK: Writing

    func write(
        _ waiting: [StoreIntake.Entry], _ batch: StoreIntake.Batch
    ) throws(StoreFailure) -> Set<StoreTicket> {
        if let failure = failure.withLock({ $0 }) { throw failure }
        do throws(PostgreSQLFailure) {
            let tables = try openTables()
            let missing = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try write(waiting, batch, to: tables)
            }
            unconfirmed.confirmed(batch)
            return missing
        } catch {
            unconfirmed.failed(batch)
            throw failed(error)
        }
    }

    private func write(
        _ waiting: [StoreIntake.Entry], _ batch: StoreIntake.Batch, to tables: PostgreSQLTables
    ) throws(PostgreSQLError) -> Set<StoreTicket> {
        try tables.connection.begin()
        try unconfirmed.remove(from: tables)
        // The statements that change no row if the row of their change is missing.
        var needed: [(statement: Int, ticket: StoreTicket)] = []
        var changes = LastChanges(of: waiting, batch.entries)
        var changed: Set<OperatorTable> = []
        for entries in [waiting, batch.entries] {
            for entry in entries {
                for change in entry.changes where changes.nextCounts() {
                    if let table = change.operatorTable { changed.insert(table) }
                    guard let statement = try tables.apply(change), let ticket = entry.ticket else { continue }
                    needed.append((statement, ticket))
                }
            }
        }
        for row in batch.lazyRows { try tables.refresh(row) }
        try tables.raiseRevisions(of: changed)
        try tables.connection.commit()
        return Set(needed.filter { tables.connection.count(of: $0.statement) == 0 }.map(\.ticket))
    }

    /// Opens a new connection if the server is away, and writes a note, because a server can answer queries while its
    /// disk is full or its standbys are missing.
    func probe() throws(StoreFailure) {
        do throws(PostgreSQLFailure) {
            let tables = try openTables()
            try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.transaction { () throws(PostgreSQLError) in
                    try unconfirmed.remove(from: tables)
                    try tables.writeNote("probe", "")
                }
            }
            unconfirmed.removed()
            failure.withLock { $0 = nil }
        } catch {
            throw failed(error)
        }
    }

    /// Asks the server whether it still answers.
    func look() throws(StoreFailure) {
        guard tables != nil, !isAway else { return }
        do throws(PostgreSQLFailure) {
            let tables = try openTables()
            try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.connection.send("SELECT 1")
                _ = try tables.connection.result(within: address.times.look)
            }
        } catch {
            throw failed(error)
        }
    }

    func committed() {}

    func close() { tables = nil }

    // MARK: The connection

    private func openTables() throws(PostgreSQLFailure) -> PostgreSQLTables {
        // After the end of the server, another server may already accept writes.
        if let tables, tables.connection.isQuiet { return tables }
        tables = nil
        let opened = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            PostgreSQLTables(
                try address.connect(answersWithin: address.times.write), patience: address.times.write)
        }
        if address.isExclusive { try lock.take(on: opened, patience: address.times.connect) }
        let found = try PostgreSQLSchema.identity(in: opened)
        guard found.store == identity else { throw .otherStore }
        try found.state.check()
        if found.state.number < PostgreSQLSchema.migrations.count {
            // A failover without synchronous standbys, or a restored backup, has undone the migration.
            try PostgreSQLSchema.migrate(opened)
            Self.told(found.state, address, log)
        }
        noteUpgrade(found.state)
        try prepare(opened)
        tables = opened
        return opened
    }

    /// Sets the time limits of the server, so that the server soon notices the end of this machine, and reads how safe
    /// the server's commits are.
    private func prepare(_ tables: PostgreSQLTables) throws(PostgreSQLFailure) {
        let found = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            _ = try tables.rows(
                """
                SELECT set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
                set_config('tcp_keepalives_count', '3', false),
                set_config('idle_in_transaction_session_timeout', '10s', false)
                """)
            unconfirmed.highest = max(
                unconfirmed.highest, try tables.rows("SELECT coalesce(max(id), 0) FROM binding").number)
            return try PostgreSQLDurability(of: tables, servers: address.servers.count).shortcoming
        }
        let known = weakness.withLock { weakness in
            defer { weakness = found }
            return weakness
        }
        guard let found, found != known else { return }
        log.warning(
            "the store's database can lose changes that the daemon has acknowledged",
            [.reason: .text(found.reason), .advice: .text(found.cure), .path: .text(place)])
    }

    /// Closes the connection, and notes that the server is away unless the changes caused the failure.
    private func failed(_ error: PostgreSQLFailure) -> StoreFailure {
        tables = nil
        let failed = StoreFailure(reason: error.description, isOfSystem: error.isOfSystem)
        if failed.isOfSystem { failure.withLock { $0 = failed } }
        return failed
    }
}

extension PostgreSQLPlace {
    /// Opens a connection with long time limits, for the start and for commands.
    func open() throws(PostgreSQLFailure) -> PostgreSQLTables {
        try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            PostgreSQLTables(try connect(answersWithin: times.read), patience: times.read)
        }
    }
}
