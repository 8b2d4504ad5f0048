import PostgreSQLClient
import Timekeeping

/// Why PostgreSQL cannot be used as the store.
enum PostgreSQLFailure: Error, CustomStringConvertible {
    case server(PostgreSQLError)
    /// A newer version of the program has migrated the database, and this program cannot use it any more.
    case newerSchema(PostgreSQLSchema.State)
    /// A migration needs the end of nodes whose programs are older.
    case olderNodes(number: Int, oldest: Int)
    /// Other connections use the tables that a migration changes.
    case busyTables(PostgreSQLError)
    /// The database has another store, or none.
    case otherStore
    case encoding(String)
    /// Another daemon uses the store.
    case inUse
    /// Another daemon has the name of this node.
    case nodeInUse(String)

    var description: String {
        switch self {
        case .server(let error): error.sentence
        case .newerSchema(let found):
            "the database has schema \(found.number), which a newer version wrote. It needs a program with schema \(found.oldest) or later, and this program has schema \(PostgreSQLSchema.migrations.count). Install the newer version again"
        case .olderNodes(let number, let oldest):
            "the migration of the database to schema \(number) needs the end of all nodes with a schema before \(oldest). Stop these nodes first, or upgrade them to a version between"
        case .busyTables(let error):
            "the database cannot be migrated, because other programs use its tables: \(error.sentence). If a backup runs, wait for its end"
        case .otherStore:
            "the server has another store, or none, under the same name; check the setting postgresql.connection"
        case .encoding(let name): "the database has the encoding \(name); create it with ENCODING 'UTF8'"
        case .inUse:
            "another sippushd uses the database: it holds the advisory lock of the store. Stop the other sippushd, or correct the setting postgresql.connection"
        case .nodeInUse(let name):
            "another sippushd has the node name \(name). Stop the other sippushd, or correct the setting cluster.node"
        }
    }

    var isOfSystem: Bool { if case .server(let error) = self { error.isOfSystem } else { true } }

    var isInUse: Bool {
        switch self {
        case .inUse, .nodeInUse: true
        case .server, .newerSchema, .olderNodes, .busyTables, .otherStore, .encoding: false
        }
    }

    static func wrapping<Result>(_ body: () throws(PostgreSQLError) -> Result) throws(PostgreSQLFailure) -> Result {
        do {
            return try body()
        } catch {
            throw .server(error)
        }
    }
}

extension PostgreSQLSchema {
    /// How far a database is migrated.
    struct State: Equatable {
        /// The number of the last step; 0 for an empty database.
        var number = 0
        /// The oldest schema whose programs can use the database.
        var oldest = 0

        /// The SQL query for the state. The column `number` is missing before schema 3.
        fileprivate static let query = """
            SELECT coalesce(max(coalesce((to_jsonb(s)->>'number')::bigint, version)), 0) AS number,
                coalesce(max(version), 0) AS oldest FROM sippushd_schema s
            """

        fileprivate init(_ row: PostgreSQLRow) {
            (number, oldest) = (Int(clamping: row.integer(0)), Int(clamping: row.integer(1)))
        }

        /// Checks that a program with a number of migrations can use the database.
        func check(_ known: Int = migrations.count) throws(PostgreSQLFailure) {
            guard oldest <= known else { throw .newerSchema(self) }
        }
    }

    /// Reads the state of a database that has the store's tables.
    static func state(in tables: PostgreSQLTables) throws(PostgreSQLFailure) -> State {
        try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in State(try tables.rows(State.query)[0]) }
    }

    /// Creates or migrates the tables. An advisory lock makes sure that only one daemon at a time changes the schema.
    ///
    /// If a migration fails, the connection must be released.
    ///
    /// - Parameters:
    ///   - tables: the connection.
    ///   - migrations: the steps that the program knows.
    /// - Returns: the state before the migration.
    /// - Throws: `busyTables` if the caller may try again soon.
    @discardableResult
    static func migrate(
        _ tables: PostgreSQLTables, by migrations: [Migration] = migrations
    ) throws(PostgreSQLFailure) -> State {
        let connection = tables.connection
        let encoding = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows("SELECT current_setting('server_encoding')")[0].text(0)
        }
        guard encoding == "UTF8" else { throw .encoding(encoding) }
        let found = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try connection.begin()
            _ = try tables.rows("SELECT pg_advisory_xact_lock(\(PostgreSQLLock.key("schema")))::text")
            try tables.send("CREATE TABLE IF NOT EXISTS sippushd_schema (version bigint NOT NULL)")
            return State(try tables.rows(State.query)[0])
        }
        try found.check(migrations.count)
        if found.number < migrations.count { try run(migrations, after: found, on: tables) }
        try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            // A reconnected daemon recognises its store by the identity.
            try tables.send(
                "INSERT INTO meta VALUES ('store-id', gen_random_uuid()::text) ON CONFLICT (key) DO NOTHING")
            try connection.commit()
        }
        return found
    }

    private static func run(
        _ migrations: [Migration], after found: State, on tables: PostgreSQLTables
    ) throws(PostgreSQLFailure) {
        let steps = Array(migrations.enumerated().dropFirst(found.number))
        let isAlone = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            // Each node holds this lock as a shared lock. This connection's own lock does not count.
            try tables.rows("SELECT pg_try_advisory_xact_lock(\(PostgreSQLLock.key("store")))::int::bigint").number == 1
        }
        // The first programs with nodes have schema 2. Before that, the other holders of the lock are new nodes.
        if !isAlone, found.number >= 2 {
            let oldest = steps.map(\.element.oldest).max() ?? 0
            guard try lowestSchema(of: tables, found) >= oldest else {
                throw .olderNodes(number: migrations.count, oldest: oldest)
            }
        }
        do throws(PostgreSQLError) {
            // A statement that waits for a lock lets all later statements of other nodes wait too. Nodes give up after
            // 1.5 seconds.
            let patience = isAlone ? tables.patience / 3 * 2 : .milliseconds(300)
            try limit("lock_timeout", patience, tables)
            if !isAlone { try limit("statement_timeout", .seconds(1), tables) }
            for (index, step) in steps {
                for statement in step.statements { try tables.connection.send(text: statement) }
                if index < 2 {
                    try tables.send("INSERT INTO sippushd_schema (version) VALUES ($1)", index + 1)
                } else {
                    try tables.send(
                        "INSERT INTO sippushd_schema (version, number) VALUES ($1, $2)", step.oldest, index + 1)
                }
            }
            // The commit may take longer, because it waits for a standby.
            try limit("statement_timeout", .zero, tables)
        } catch {
            guard case .query(let code) = error.kind, busyCodes.contains(code) else { throw .server(error) }
            throw .busyTables(error)
        }
    }

    /// The SQLSTATEs for a lock that was not available, a cancelled statement, and a deadlock.
    private static let busyCodes: Set<String> = ["55P03", "57014", "40P01"]

    /// Limits the time of the following statements of the transaction, and waits for the statements before.
    private static func limit(
        _ setting: String, _ time: Duration, _ tables: PostgreSQLTables
    ) throws(PostgreSQLError) {
        _ = try tables.rows("SELECT set_config('\(setting)', $1, true)", "\(time.nanoseconds / 1_000_000)ms")
    }

    /// The lowest schema of the programs of other nodes. Nodes that end without a word count for ten seconds.
    private static func lowestSchema(
        of tables: PostgreSQLTables, _ found: State
    ) throws(PostgreSQLFailure) -> Int {
        // Only programs with schema 2 run beside this schema.
        guard found.number > 2 else { return found.number }
        return try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            let lowest = try tables.rows(
                """
                SELECT coalesce(min(CASE WHEN described_run = run THEN schema_number ELSE 2 END), $1::bigint)
                FROM node WHERE name <> coalesce(current_setting('sippushd.node', true), '')
                    AND seen > clock_timestamp() - interval '10 seconds'
                """, Int64(found.number))
            return Int(clamping: lowest.number)
        }
    }

    /// The identity of the store in a database, and how far the database is migrated.
    static func identity(in tables: PostgreSQLTables) throws(PostgreSQLFailure) -> (store: String, state: State) {
        let rows = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows(
                """
                SELECT state.number, state.oldest, (SELECT value FROM meta WHERE key = 'store-id')
                FROM (\(State.query)) AS state
                """)
        }
        guard rows.count > 0, !rows[0].isNull(2) else { throw .otherStore }
        return (rows[0].text(2), State(rows[0]))
    }
}
