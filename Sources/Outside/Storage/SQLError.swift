import CSQLite
import Glibc

/// A result code of SQLite, such as "busy" or "full". In a `case` pattern, a primary code also matches its extended
/// codes.
package struct SQLResultCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    package var primary: SQLResultCode { SQLResultCode(rawValue: rawValue & 0xFF) }

    package static func ~= (pattern: SQLResultCode, code: SQLResultCode) -> Bool {
        pattern.rawValue > 0xFF ? pattern == code : pattern == code.primary
    }

    package static let busy = SQLResultCode(rawValue: SQLITE_BUSY)
    package static let cannotOpen = SQLResultCode(rawValue: SQLITE_CANTOPEN)
    package static let corrupt = SQLResultCode(rawValue: SQLITE_CORRUPT)
    package static let full = SQLResultCode(rawValue: SQLITE_FULL)
    package static let interrupted = SQLResultCode(rawValue: SQLITE_INTERRUPT)
    package static let inputOutput = SQLResultCode(rawValue: SQLITE_IOERR)
    package static let outOfMemory = SQLResultCode(rawValue: SQLITE_NOMEM)
    package static let misuse = SQLResultCode(rawValue: SQLITE_MISUSE)
    package static let readOnly = SQLResultCode(rawValue: SQLITE_READONLY)
}

/// An error from SQLite, with the SQL but without bound values, which may be secrets.
package struct SQLError: Error, Hashable, Sendable, CustomStringConvertible {
    package let code: SQLResultCode
    package let message: String
    package let sql: String?
    /// The system's `errno`; 0 if SQLite got none.
    package let systemError: Int32

    package init(code: SQLResultCode, message: String, sql: String? = nil, systemError: Int32 = 0) {
        self.code = code
        self.message = message
        self.sql = sql
        self.systemError = systemError
    }

    /// The text of the error for operators. The text contains SQLite's message. The text also contains the cause if an
    /// operator can remove it, and otherwise the SQL statement.
    package var description: String {
        if let trouble { return "\(trouble) (SQLite \(code.rawValue): \(message))" }
        return "\(message) (SQLite \(code.rawValue))" + (sql.map { ": \($0)" } ?? "")
    }

    private var trouble: String? {
        switch (code, systemError) {
        case (.full, _), (_, ENOSPC): "the disk is full"
        case (_, EDQUOT): "the disk quota is used up"
        case (_, EFBIG): "the file has reached the process's limit of file sizes"
        case (_, EROFS): "the file system may only be read"
        case (_, EACCES), (_, EPERM): "permission denied"
        default: nil
        }
    }

    /// Whether the disk or the system caused the error, so that the same statement may succeed later.
    package var isOfSystem: Bool {
        switch code {
        case .full, .inputOutput, .cannotOpen, .readOnly, .busy, .outOfMemory: true
        default: false
        }
    }
}

/// Why a database cannot be migrated to the program's schema.
package enum MigrationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A newer version of the program has migrated the database.
    case newerSchema(found: Int, known: Int)
    /// Another program created the database.
    case foreignFile(applicationID: Int32)
    case failed(toVersion: Int, SQLError)

    package var description: String {
        switch self {
        case .newerSchema(let found, let known):
            "the file has schema \(found), which a newer version wrote; this version knows schemas up to \(known). Install the newer version again, or restore a backup that this version made"
        case .foreignFile(let applicationID): "the file belongs to another program (application id \(applicationID))"
        case .failed(let version, let error): "the change to schema \(version) failed: \(error)"
        }
    }
}
