import CSQLite
import Glibc

/// The sole owner of one `sqlite3` object. The connection and its statements share the ``DatabaseHandle``; the release
/// of all of them closes the database.
@safe final class DatabaseHandle {
    let raw: OpaquePointer
    /// The number of pages in the write-ahead log, updated by SQLite's hook at each commit; `nil` while SQLite itself
    /// copies pages.
    private var loggedPages: UnsafeMutablePointer<Int32>?

    /// Configures SQLite once in a process, before the first database is opened. If another library has already started
    /// SQLite, the configuration fails, and SQLite works a little slower.
    private static let isConfigured = sqlite_count_no_memory() == SQLITE_OK

    init(path: String, access: ConnectionOptions.Access) throws(SQLError) {
        _ = Self.isConfigured
        if access == .readWriteCreate { try Self.create(path) }
        let flags =
            switch access {
            case .readOnly: SQLITE_OPEN_READONLY
            case .readWrite, .readWriteCreate: SQLITE_OPEN_READWRITE
            }
        var raw: OpaquePointer?
        // NOMUTEX is set, because only one thread at a time uses the connection.
        let code = unsafe sqlite3_open_v2(path, &raw, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK, let raw = unsafe raw else {
            let message = unsafe raw.map { unsafe String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            let systemError = unsafe raw.map { unsafe sqlite3_system_errno($0) } ?? 0
            unsafe sqlite3_close_v2(raw)
            throw SQLError(
                code: SQLResultCode(rawValue: code), message: "\(path): \(message)", systemError: systemError)
        }
        unsafe self.raw = raw
    }

    deinit {
        unsafe sqlite3_close_v2(raw)
        unsafe loggedPages?.deallocate()
    }

    /// Counts the pages of the write-ahead log, and stops SQLite from copying them into the database file by itself.
    func watchLog() {
        guard unsafe loggedPages == nil else { return }
        let pages = UnsafeMutablePointer<Int32>.allocate(capacity: 1)
        unsafe pages.initialize(to: 0)
        unsafe loggedPages = unsafe pages
        unsafe sqlite3_wal_hook(raw, logGrew, pages)
    }

    var pagesInLog: Int { unsafe Int(loggedPages?.pointee ?? 0) }

    /// Creates an empty file that only its owner can read, if the file does not exist. SQLite gives its journal files
    /// the mode of the database file.
    ///
    /// An existing file is not opened, because closing it would end SQLite's locks: POSIX locks belong to the process.
    /// Without SQLite's locks, another process could assume that no other process uses the database, and delete the
    /// write-ahead log.
    private static func create(_ path: String) throws(SQLError) {
        guard path != ":memory:" else { return }
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            guard errno != EEXIST else { return }
            let systemError = errno
            let reason = unsafe String(cString: strerror(systemError))
            throw SQLError(
                code: .cannotOpen, message: "\(path): cannot be opened: \(reason)", systemError: systemError)
        }
        close(descriptor)
    }

    /// The error of the last call on the database, which returned `code`.
    func error(_ code: Int32, sql: String?) -> SQLError {
        let isOfSystem = code & 0xFF == SQLITE_IOERR || code & 0xFF == SQLITE_CANTOPEN
        return SQLError(
            code: SQLResultCode(rawValue: code), message: unsafe String(cString: sqlite3_errmsg(raw)), sql: sql,
            systemError: isOfSystem ? unsafe sqlite3_system_errno(raw) : 0)
    }
}

private func logGrew(
    _ context: UnsafeMutableRawPointer?, _ database: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ pages: Int32
) -> Int32 {
    unsafe context?.assumingMemoryBound(to: Int32.self).pointee = pages
    return SQLITE_OK
}
