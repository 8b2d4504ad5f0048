import CSQLite

/// One connection to a SQLite database. The connection is not `Sendable`, because only one thread at a time can use it.
///
/// Each commit syncs the write-ahead log to the disk (`synchronous=FULL`), so that the transaction survives a crash.
/// After ``SQLResultCode/inputOutput`` or ``SQLResultCode/full``, the disk's state is unknown, and the connection must
/// be closed.
@safe package final class Connection {
    let handle: DatabaseHandle
    private var statements: [String: Statement] = [:]
    /// The prepared statements for constant SQL, by the memory address of the SQL.
    private var fixed: [UInt: Statement] = [:]
    private static let maximumStatements = 64

    /// Opens the database at `path`; `:memory:` means a database in memory that ends with the connection.
    package init(path: String, options: ConnectionOptions = ConnectionOptions()) throws(SQLError) {
        handle = try DatabaseHandle(path: path, access: options.access)
        let milliseconds = options.busyTimeout / .milliseconds(1)
        unsafe sqlite3_busy_timeout(handle.raw, Int32(exactly: milliseconds.rounded()) ?? .max)
        try execute("PRAGMA cache_size = -\(options.cacheSize); PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON")
        guard options.access != .readOnly else { return }
        try execute(
            """
            PRAGMA page_size = \(options.pageSize);
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            PRAGMA wal_autocheckpoint = \(max(0, options.autoCheckpoint));
            PRAGMA journal_size_limit = \(options.journalSizeLimit);
            """)
        if options.autoCheckpoint <= 0 { handle.watchLog() }
    }

    /// Runs SQL statements without parameters, and ignores result rows.
    package func execute(_ sql: String) throws(SQLError) {
        let code = unsafe sqlite3_exec(handle.raw, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw handle.error(code, sql: sql) }
    }

    /// The prepared statement for the given SQL, reset and without bound values. The same SQL always gives the same
    /// prepared statement.
    package func statement(_ sql: String) throws(SQLError) -> Statement {
        if let statement = statements[sql] {
            statement.reset()
            return statement
        }
        let statement = try Statement(sql: sql, on: handle)
        if statements.count >= Self.maximumStatements { statements.removeAll() }
        statements[sql] = statement
        return statement
    }

    /// The prepared statement for constant SQL. A search by the memory address of the SQL is faster than by a hash of
    /// the text.
    package func statement(fixed sql: StaticString) throws(SQLError) -> Statement {
        let address = unsafe UInt(bitPattern: sql.utf8Start)
        if let statement = fixed[address] {
            statement.reset()
            return statement
        }
        let statement = try Statement(sql: sql.description, on: handle)
        fixed[address] = statement
        return statement
    }

    /// Runs `body` in a transaction. If `body` throws, the transaction is rolled back; otherwise it is committed.
    ///
    /// The write lock is taken at the beginning, so that another writer cannot make `body` fail in the middle.
    package func transaction<Result>(_ body: () throws(SQLError) -> Result) throws(SQLError) -> Result {
        try statement(fixed: "BEGIN IMMEDIATE").run()
        do {
            let result = try body()
            try statement(fixed: "COMMIT").run()
            return result
        } catch {
            // SQLite has already rolled back the transaction after some errors, so a failure of ROLLBACK is ignored.
            try? execute("ROLLBACK")
            throw error
        }
    }

    /// The number of rows that the last INSERT, UPDATE or DELETE changed.
    package var changes: Int { unsafe Int(sqlite3_changes64(handle.raw)) }
}

// MARK: Maintenance

extension Connection {
    package enum CheckpointMode: Hashable, Sendable {
        /// Copies as many pages as possible without waiting for readers.
        case passive
        /// Waits for readers, copies all pages, and truncates the log file.
        case truncate
    }

    /// Copies pages from the write-ahead log into the database file.
    ///
    /// - Parameter mode: whether to wait for readers.
    /// - Returns: the number of pages in the write-ahead log, and the number of copied pages; both 0 without a log.
    /// - Throws: `busy` if another connection is copying, or an error if the disk fails.
    @discardableResult
    package func checkpoint(_ mode: CheckpointMode) throws(SQLError) -> (logged: Int, copied: Int) {
        var logged: Int32 = 0
        var copied: Int32 = 0
        let rawMode = mode == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE
        let code = unsafe sqlite3_wal_checkpoint_v2(handle.raw, nil, rawMode, &logged, &copied)
        guard code == SQLITE_OK else { throw handle.error(code, sql: nil) }
        return (max(0, Int(logged)), max(0, Int(copied)))
    }

    /// The number of pages in the write-ahead log after the connection's last commit. The number of pages is valid only
    /// if ``ConnectionOptions/autoCheckpoint`` is 0. When all pages were copied, the next commit writes the log from
    /// its beginning, and the count restarts.
    package var pagesInLog: Int { handle.pagesInLog }

    /// The result of a query for one number, such as a pragma; `nil` for no row.
    package func integer(_ sql: String) throws(SQLError) -> Int64? {
        let query = try statement(sql)
        defer { query.reset() }
        return try query.step() ? query.integer(0) : nil
    }
}
