internal import CSQLite
internal import Glibc

/// Sole owner of one `sqlite3`; shared by a connection and its statements, so that it closes after the last of them.
@safe final class DatabaseHandle {
    let raw: OpaquePointer

    init(path: String, access: ConnectionOptions.Access) throws(SQLError) {
        if access == .readWriteCreate { try Self.create(path) }
        let flags =
            switch access {
            case .readOnly: SQLITE_OPEN_READONLY
            case .readWrite, .readWriteCreate: SQLITE_OPEN_READWRITE
            }
        var raw: OpaquePointer?
        // One thread at a time uses a connection, so SQLite need not lock it.
        let code = unsafe sqlite3_open_v2(path, &raw, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK, let raw = unsafe raw else {
            let message = unsafe raw.map { unsafe String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            unsafe sqlite3_close_v2(raw)
            throw SQLError(code: SQLResultCode(rawValue: code), message: "\(path): \(message)")
        }
        unsafe self.raw = raw
    }

    deinit { unsafe sqlite3_close_v2(raw) }

    /// Makes an empty file that nobody else may read; SQLite gives its journal files the same mode.
    private static func create(_ path: String) throws(SQLError) {
        guard path != ":memory:" else { return }
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = unsafe String(cString: strerror(errno))
            throw SQLError(code: .cannotOpen, message: "\(path): cannot be opened: \(reason)")
        }
        close(descriptor)
    }

    /// The error that the last call left, for `code`.
    func error(_ code: Int32, sql: String?) -> SQLError {
        SQLError(
            code: SQLResultCode(rawValue: code), message: unsafe String(cString: sqlite3_errmsg(raw)), sql: sql)
    }
}
