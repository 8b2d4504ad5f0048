import PostgreSQLClient

/// Why PostgreSQL cannot be used as the store.
enum PostgreSQLFailure: Error, CustomStringConvertible {
    case server(PostgreSQLError)
    /// A newer version of the program has migrated the database.
    case newerSchema(found: Int64)
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
            "the database has schema \(found), which a newer version wrote; this version knows schemas up to \(PostgreSQLSchema.scripts.count). Install the newer version again"
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
        case .server, .newerSchema, .otherStore, .encoding: false
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
    /// Creates or migrates the tables. An advisory lock makes sure that only one daemon at a time changes the schema.
    static func migrate(_ tables: PostgreSQLTables) throws(PostgreSQLFailure) {
        let connection = tables.connection
        let encoding = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows("SELECT current_setting('server_encoding')")[0].text(0)
        }
        guard encoding == "UTF8" else { throw .encoding(encoding) }
        let found = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try connection.begin()
            _ = try tables.rows("SELECT pg_advisory_xact_lock(\(PostgreSQLLock.key("schema")))::text")
            try tables.send("CREATE TABLE IF NOT EXISTS sippushd_schema (version bigint NOT NULL)")
            return try tables.rows("SELECT max(version) FROM sippushd_schema").number
        }
        guard found <= scripts.count else { throw .newerSchema(found: found) }
        try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            for (index, script) in scripts.enumerated().dropFirst(Int(clamping: found)) {
                for statement in script { try connection.send(text: statement) }
                try tables.send("INSERT INTO sippushd_schema VALUES ($1)", index + 1)
            }
            // A reconnected daemon recognises its store by the identity.
            try tables.send(
                "INSERT INTO meta VALUES ('store-id', gen_random_uuid()::text) ON CONFLICT (key) DO NOTHING")
            try connection.commit()
        }
    }

    /// The identity of the store, if the database has this program's schema.
    static func identity(in tables: PostgreSQLTables) throws(PostgreSQLFailure) -> String {
        let rows = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows(
                "SELECT (SELECT max(version) FROM sippushd_schema), (SELECT value FROM meta WHERE key = 'store-id')")
        }
        guard rows.count > 0, rows[0].integer(0) == Int64(scripts.count) else { throw .otherStore }
        return rows[0].text(1)
    }
}
