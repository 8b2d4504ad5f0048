import CSQLite

/// One connection to a SQLite database. A connection to SQLite is not `Sendable`, because only one thread at a time can
/// use it.
///
/// A committed transaction survives a crash, because each commit syncs the write-ahead log to the disk
/// (`synchronous=FULL`). After the errors ``SQLResultCode/inputOutput`` and ``SQLResultCode/full``, the connection must
/// be closed, because the disk's state is unknown.
@safe package final class Connection {
    let handle: DatabaseHandle
    private var statements: [String: Statement] = [:]
    /// The prepared statements for SQL that is a constant of the program, by the memory address of the SQL.
    private var fixed: [UInt: Statement] = [:]
    private static let maximumStatements = 64

    /// Opens the database at `path`. The path `:memory:` means a database in memory, which exists as long as the
    /// connection.
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

    /// Runs one or more SQL statements without parameters. The function ignores result rows of the SQL statements.
    package func execute(_ sql: String) throws(SQLError) {
        let code = unsafe sqlite3_exec(handle.raw, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw handle.error(code, sql: sql) }
    }

    /// The prepared statement for the given SQL. For the same SQL, `statement` always returns the same object, which is
    /// reset and has no bound values.
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

    /// The prepared statement for SQL that is a constant of the program. The statement is found by the memory address
    /// of the SQL, because computing a hash of the SQL would take longer.
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

    /// Runs `body` in a database transaction. All changes of `body` are committed; if `body` throws, none of the
    /// changes are committed.
    ///
    /// The transaction takes the write lock at its beginning, so that another writer cannot make `body` fail in the
    /// middle.
    package func transaction<Result>(_ body: () throws(SQLError) -> Result) throws(SQLError) -> Result {
        try statement(fixed: "BEGIN IMMEDIATE").run()
        do {
            let result = try body()
            try statement(fixed: "COMMIT").run()
            return result
        } catch {
            // A failure of ROLLBACK is ignored, because SQLite has already rolled back the transaction after some
            // errors.
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
        /// The checkpoint copies as many pages as possible without waiting for readers.
        case passive
        /// The checkpoint waits for readers, copies all pages, and truncates the log file.
        case truncate
    }

    /// Copies pages from the write-ahead log into the database file.
    ///
    /// - Parameter mode: whether to wait for readers.
    /// - Returns: the number of pages in the write-ahead log, and the number of copied pages; both are 0 if there is no
    ///   log.
    /// - Throws: `busy` if a second connection is copying the database, or an error if the disk fails.
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
    /// if ``ConnectionOptions/autoCheckpoint`` is 0. When all pages have been copied, the next commit writes the log
    /// from its beginning, and the number of pages begins again.
    package var pagesInLog: Int { handle.pagesInLog }

    /// The result of a query that returns one number, such as a pragma; `nil` if the query returns no row.
    package func integer(_ sql: String) throws(SQLError) -> Int64? {
        let query = try statement(sql)
        defer { query.reset() }
        return try query.step() ? query.integer(0) : nil
    }
}
