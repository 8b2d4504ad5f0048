import CSQLite
import Glibc

/// Why a backup of the database failed.
package enum BackupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The backup was refused; the text is a sentence for the operator.
    case refused(String)
    case sql(SQLError)
    case cancelled

    package var description: String {
        switch self {
        case .refused(let sentence): sentence
        case .sql(let error): error.description
        case .cancelled: "the backup was cancelled"
        }
    }
}

extension Connection {
    /// Copies the whole database in its current state, while other connections can write. The backup is first copied
    /// into a temporary file in the target's folder. The complete copy of the database then replaces the target. Only
    /// the owner of a backup can read it.
    ///
    /// - Parameters:
    ///   - target: an absolute path; a plain file at the path is replaced.
    ///   - database: the path of the database; the target must be neither the database nor one of its related files.
    ///   - isCancelled: called at intervals; if it returns true, the backup stops.
    /// - Returns: the size of the backup in bytes.
    /// - Throws: the reason of a failure; an existing file at the target then stays unchanged.
    @discardableResult
    package func backUp(
        to target: String, database: String, isCancelled: () -> Bool = { false }
    ) throws(BackupError) -> Int {
        let place = try BackupPlace(target: target, database: database)
        try place.prepare(for: try size())
        do throws(BackupError) {
            try copyPages(to: place.temporary, isCancelled)
            return try place.publish()
        } catch {
            place.clear()
            throw error
        }
    }

    /// The size of the database in bytes.
    private func size() throws(BackupError) -> Int {
        do throws(SQLError) {
            let pages = try integer("PRAGMA page_count") ?? 0
            let pageSize = try integer("PRAGMA page_size") ?? 0
            return Int(clamping: pages.multipliedReportingOverflow(by: pageSize).partialValue)
        } catch {
            throw .sql(error)
        }
    }

    /// Copies the pages of the database into the file at `path`, some pages at a time. One read transaction covers the
    /// whole copy, because otherwise each change by another connection would restart it.
    private func copyPages(to path: String, _ isCancelled: () -> Bool) throws(BackupError) {
        do throws(SQLError) {
            let copy = try DatabaseHandle(path: path, access: .readWrite)
            try execute("BEGIN")
            defer { try? execute("ROLLBACK") }
            _ = try integer("SELECT count(*) FROM sqlite_schema")
            guard let backup = unsafe sqlite3_backup_init(copy.raw, "main", handle.raw, "main") else {
                throw copy.error(unsafe sqlite3_errcode(copy.raw), sql: nil)
            }
            var code = SQLITE_OK
            while code == SQLITE_OK, !isCancelled() { code = unsafe sqlite3_backup_step(backup, 512) }
            let end = unsafe sqlite3_backup_finish(backup)
            guard code != SQLITE_OK else { throw SQLError(code: .interrupted, message: "interrupted") }
            guard code == SQLITE_DONE, end == SQLITE_OK else {
                throw copy.error(code == SQLITE_DONE ? end : code, sql: nil)
            }
            // In the journal mode DELETE, the copy is one complete file without a write-ahead log.
            let mode = unsafe sqlite3_exec(copy.raw, "PRAGMA journal_mode = DELETE", nil, nil, nil)
            guard mode == SQLITE_OK else { throw copy.error(mode, sql: nil) }
        } catch {
            throw error.code == .interrupted ? .cancelled : .sql(error)
        }
    }
}

/// The target of a backup, and the temporary file that replaces the target at the end.
private struct BackupPlace {
    let target: String
    let temporary: String
    private let folder: String

    /// Checks that the target is not one of the database's own files and can be overwritten.
    ///
    /// - Throws: an error if the target must not or cannot be overwritten.
    init(target: String, database: String) throws(BackupError) {
        guard target.hasPrefix("/"), let path = resolvedFolder(of: target) else {
            throw .refused("the folder of \(target) does not exist")
        }
        let own = resolvedPath(database) ?? database
        let files = ["", "-wal", "-shm", "-journal", ".lock"].map { own + $0 }
        let isOwn = files.contains { file in
            file == path || (FileIdentity(path: file) != nil && FileIdentity(path: file) == FileIdentity(path: path))
        }
        guard !isOwn else { throw .refused("\(target) belongs to the store itself") }
        var status = stat()
        if unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw .refused("\(target) exists and is not a plain file")
        }
        self.target = path
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        folder = slash == path.startIndex ? "/" : String(path[..<slash])
        let mark = String(UInt64.random(in: .min ... .max), radix: 16)
        temporary = "\(folder == "/" ? "" : folder)/.\(path[path.index(after: slash)...]).\(mark).partial"
    }

    /// Creates the temporary file, unless the disk has less room than `size` bytes.
    func prepare(for size: Int) throws(BackupError) {
        var room = statvfs()
        if unsafe statvfs(folder, &room) == 0 {
            let free = UInt64(room.f_bavail).multipliedReportingOverflow(by: UInt64(room.f_frsize))
            guard free.overflow || free.partialValue >= UInt64(max(0, size)) else {
                throw .refused("\(folder) has room for \(free.partialValue) bytes, and the backup has \(size)")
            }
        }
        let descriptor = unsafe open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("cannot write in \(folder)") }
        close(descriptor)
    }

    /// Syncs the temporary file to the disk, and moves it to the target.
    ///
    /// - Returns: the size in bytes of the finished backup file.
    func publish() throws(BackupError) -> Int {
        let descriptor = unsafe open(temporary, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot open \(temporary)") }
        defer { close(descriptor) }
        var status = stat()
        guard fsync(descriptor) == 0, unsafe fstat(descriptor, &status) == 0 else {
            throw failure("cannot write \(temporary)")
        }
        guard unsafe rename(temporary, target) == 0 else { throw failure("cannot write \(target)") }
        let directory = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if directory >= 0 {
            fsync(directory)
            close(directory)
        }
        return Int(clamping: status.st_size)
    }

    func clear() { for suffix in ["", "-journal", "-wal", "-shm"] { _ = unsafe unlink(temporary + suffix) } }

    private func failure(_ what: String) -> BackupError {
        .refused("\(what): \(unsafe String(cString: strerror(errno)))")
    }
}

/// The path with its symbolic links resolved, except in its last part.
private func resolvedFolder(of path: String) -> String? {
    guard let slash = path.lastIndex(of: "/") else { return nil }
    let name = path[path.index(after: slash)...]
    guard !name.isEmpty, name != ".", name != ".." else { return nil }
    let folder = slash == path.startIndex ? "/" : String(path[..<slash])
    guard FileIdentity(path: folder) != nil, let resolved = resolvedPath(folder) else { return nil }
    return (resolved == "/" ? "" : resolved) + "/" + name
}
