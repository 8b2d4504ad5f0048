import CSQLite

/// A prepared SQL statement, used in four steps: bind values, step to a row, read the row, reset.
///
/// As in SQLite, indices of parameters begin at 1, and indices of columns at 0. Functions for binding never throw; the
/// next ``step()`` throws their first error. Bound values stay until ``reset()``.
@safe package final class Statement {
    package let sql: String
    private let handle: DatabaseHandle
    private let raw: OpaquePointer
    private var bindingFailure = SQLITE_OK
    /// Whether no values are bound and no rows are left.
    private var isClean = true
    /// The memory for bound bytes, used again after each reset. A value that does not fit is copied into memory that
    /// SQLite allocates.
    private var bound: UnsafeMutableRawBufferPointer?
    private var boundCount = 0
    private static let boundCapacity = 2048

    init(sql: String, on handle: DatabaseHandle) throws(SQLError) {
        var raw: OpaquePointer?
        let code = unsafe sqlite3_prepare_v3(handle.raw, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &raw, nil)
        guard code == SQLITE_OK else { throw handle.error(code, sql: sql) }
        guard let raw = unsafe raw else { throw SQLError(code: .misuse, message: "no statement", sql: sql) }
        self.sql = sql
        self.handle = handle
        unsafe self.raw = raw
    }

    deinit {
        unsafe sqlite3_finalize(raw)
        unsafe bound?.deallocate()
    }

    // MARK: Running

    /// Advances to the next row.
    ///
    /// - Returns: whether a row exists; if none exists, the statement is reset.
    /// - Throws: SQLite's error, after which the statement is reset.
    package func step() throws(SQLError) -> Bool {
        isClean = false
        var code = bindingFailure
        if code == SQLITE_OK { code = unsafe sqlite3_step(raw) }
        if code == SQLITE_ROW { return true }
        guard code == SQLITE_DONE else {
            let error = handle.error(code, sql: sql)
            reset()
            throw error
        }
        reset()
        return false
    }

    /// Runs the statement to its end, and ignores result rows.
    package func run() throws(SQLError) {
        while try step() {}
    }

    /// Drops the remaining rows and all bound values.
    package func reset() {
        guard !isClean else { return }
        unsafe sqlite3_reset(raw)
        unsafe sqlite3_clear_bindings(raw)
        bindingFailure = SQLITE_OK
        boundCount = 0
        isClean = true
    }

    // MARK: Parameters

    package func bind(_ index: Int, integer: Int64) {
        note(unsafe sqlite3_bind_int64(raw, position(index), integer))
    }

    package func bindNull(_ index: Int) { note(unsafe sqlite3_bind_null(raw, position(index))) }

    package func bind(_ index: Int, text: String) { bind(index, text: text.utf8.span) }

    /// Binds a text of any bytes, which SQLite copies and does not check for UTF-8.
    package func bind(_ index: Int, text: Span<UInt8>) {
        guard let copy = unsafe keep(text) else {
            return unsafe text.withUnsafeBytes { bytes in
                let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
                note(
                    unsafe sqlite3_bind_text64(
                        raw, position(index), start, UInt64(bytes.count), Self.copies, UInt8(SQLITE_UTF8)))
            }
        }
        note(
            unsafe sqlite3_bind_text64(
                raw, position(index), copy.assumingMemoryBound(to: CChar.self), UInt64(text.count), nil,
                UInt8(SQLITE_UTF8)))
    }

    package func bind(_ index: Int, blob: Span<UInt8>) {
        guard let copy = unsafe keep(blob) else {
            return unsafe blob.withUnsafeBytes { bytes in
                note(
                    unsafe sqlite3_bind_blob64(
                        raw, position(index), bytes.baseAddress, UInt64(bytes.count), Self.copies))
            }
        }
        note(unsafe sqlite3_bind_blob64(raw, position(index), copy, UInt64(blob.count), nil))
    }

    /// Copies the bytes of a parameter into memory that is valid until ``reset()``; `nil` if the memory has no room.
    /// The result for an empty value is no null pointer, because SQLite would read a null pointer as NULL.
    private func keep(_ bytes: Span<UInt8>) -> UnsafeMutableRawPointer? {
        guard bytes.count <= Self.boundCapacity - boundCount else { return nil }
        if unsafe bound == nil { unsafe bound = .allocate(byteCount: Self.boundCapacity, alignment: 1) }
        guard let start = unsafe bound?.baseAddress else { return nil }
        let copy = unsafe start + boundCount
        unsafe bytes.withUnsafeBytes { bytes in
            if let source = bytes.baseAddress { unsafe copy.copyMemory(from: source, byteCount: bytes.count) }
        }
        boundCount += bytes.count
        return unsafe copy
    }

    /// Stores the first failure to bind, so that ``step()`` can throw it.
    private func note(_ code: Int32) {
        isClean = false
        if bindingFailure == SQLITE_OK { bindingFailure = code }
    }

    /// Converts the index of a parameter or column; an index out of range becomes 0, which SQLite refuses.
    private func position(_ index: Int) -> Int32 { Int32(exactly: index) ?? 0 }

    /// The constant `SQLITE_TRANSIENT`, which makes SQLite copy a bound value, and which Swift cannot import.
    private static let copies = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    // MARK: Columns

    package var columns: [String] {
        (0..<(unsafe sqlite3_column_count(raw))).map { column in
            unsafe sqlite3_column_name(raw, column).map { unsafe String(cString: $0) } ?? ""
        }
    }

    /// The first bytes of a text or blob, at most `limit`.
    package func bytes(_ column: Int, atMost limit: Int) -> [UInt8] {
        withBytes(column) { span in
            let part = span.extracting(first: limit)
            return unsafe part.withUnsafeBufferPointer { unsafe Array($0) }
        }
    }

    package func integer(_ column: Int) -> Int64 { unsafe sqlite3_column_int64(raw, position(column)) }

    package func isNull(_ column: Int) -> Bool { unsafe sqlite3_column_type(raw, position(column)) == SQLITE_NULL }

    /// Passes the bytes of a text or blob column to `body`, or an empty span for NULL. The bytes are valid only until
    /// the statement is used again.
    package func withBytes<Result>(_ column: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        let start = unsafe sqlite3_column_blob(raw, position(column))
        let count = Int(unsafe sqlite3_column_bytes(raw, position(column)))
        let bytes = unsafe UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count)
        return body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
    }

    package func bytes(_ column: Int) -> [UInt8] {
        withBytes(column) { span in
            unsafe span.withUnsafeBufferPointer { unsafe Array($0) }
        }
    }

    /// The value of a column as text, with invalid UTF-8 replaced.
    package func text(_ column: Int) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
