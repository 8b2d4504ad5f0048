import Glibc

/// A lock file that only one process at a time can lock. When the process ends or crashes, the kernel releases the lock
/// (`flock`).
///
/// The file is not removed at the release. The file contains the id and the activity of the last process that locked
/// it, and possibly a marker word. The marker word stays in the file when other processes lock it later.
package final class FileLock: @unchecked Sendable {
    // The descriptor is closed only once, by `release()` or by `deinit`, so the class can be `@unchecked Sendable`.
    private var descriptor: Int32

    /// Why the lock file could not be locked.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// Another process holds the lock; the values are the id of this process, if known, and the activity of this
        /// process.
        case held(by: Int32?, activity: String)
        /// The system's error.
        case system(String)

        package var description: String {
            switch self {
            case .held(let process, _): "process \(process.map { "\($0)" } ?? "of unknown number") holds it"
            case .system(let reason): reason
            }
        }
    }

    /// - Parameters:
    ///   - path: the path of the lock file, which is created if it does not exist.
    ///   - activity: one word for other processes that find the file locked.
    /// - Throws: an error that names the lock's holder, or the system's error.
    package init(path: String, activity: String) throws(Failure) {
        descriptor = try Self.take(path, activity)
    }

    /// Locks the file at the path again if somebody has removed or replaced the lock file. The old lock would not keep
    /// another process from locking the new file.
    ///
    /// - Returns: whether a new lock was needed.
    /// - Throws: an error that names the new lock's holder, or the system's error; the process keeps its old lock.
    package func renew(path: String, activity: String) throws(Failure) -> Bool {
        guard descriptor >= 0, FileIdentity(path: path) != FileIdentity(descriptor: descriptor) else { return false }
        let renewed = try Self.take(path, activity)
        Self.unlock(descriptor)
        descriptor = renewed
        return true
    }

    private static func take(_ path: String, _ activity: String) throws(Failure) -> Int32 {
        while true {
            let opened = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard opened >= 0 else { throw .system(reason) }
            guard flock(opened, LOCK_EX | LOCK_NB) == 0 else {
                let failure = errno == EWOULDBLOCK ? holder(opened) : .system(reason)
                close(opened)
                throw failure
            }
            // Another process may have removed the file after it was opened. A lock on a removed file does not keep
            // other processes out.
            guard FileIdentity(path: path) == FileIdentity(descriptor: opened) else {
                close(opened)
                continue
            }
            let mark = words(of: opened).dropFirst(2).first.map { " \($0)" } ?? ""
            do throws(Failure) {
                try write("\(getpid()) \(activity)\(mark)", to: opened)
            } catch {
                close(opened)
                throw error
            }
            return opened
        }
    }

    /// Writes a marker word into the file, for later holders of the lock.
    ///
    /// - Throws: the system's error if the lock file cannot be changed.
    package func mark(_ word: StaticString) throws(Failure) {
        try Self.write((Self.words(of: descriptor).prefix(2) + ["\(word)"]).joined(separator: " "), to: descriptor)
    }

    /// Whether the lock file contains the marker word; the caller needs no lock.
    package static func hasMark(_ word: StaticString, path: String) -> Bool {
        let opened = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard opened >= 0 else { return false }
        defer { close(opened) }
        return words(of: opened).dropFirst(2).first == "\(word)"
    }

    deinit { release() }

    /// Releases the lock, unless it is already released.
    package func release() {
        guard descriptor >= 0 else { return }
        Self.unlock(descriptor)
        descriptor = -1
    }

    /// Unlocks and closes the descriptor. The lock is released before the close, because a child process that was just
    /// forked would otherwise keep it for a moment.
    private static func unlock(_ descriptor: Int32) {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    private static func holder(_ descriptor: Int32) -> Failure {
        let words = words(of: descriptor)
        return .held(by: words.first.flatMap { Int32($0) }, activity: words.dropFirst().first ?? "")
    }

    private static func write(_ line: String, to descriptor: Int32) throws(Failure) {
        let text = Array("\(line)\n".utf8)
        let isWritten = unsafe pwrite(descriptor, text, text.count, 0) == text.count
        guard isWritten, ftruncate(descriptor, off_t(text.count)) == 0 else { throw .system(reason) }
    }

    private static func words(of descriptor: Int32) -> [String] {
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = unsafe pread(descriptor, &buffer, buffer.count, 0)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).split(whereSeparator: \.isWhitespace)
            .map(String.init)
    }

    private static var reason: String { unsafe String(cString: strerror(errno)) }
}

/// The identity of a file: equal for all paths that lead to the file. The file is not opened.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64

    /// Finds the file at the path, through symbolic links; `nil` if the file does not exist.
    package init?(path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    init?(descriptor: Int32) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    private init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
    }
}

/// The path with its symbolic links resolved; the file itself need not exist.
///
/// - Returns: the path; `nil` if the folder does not exist.
package func resolvedPath(_ path: String) -> String? {
    if let resolved = realPath(path) { return resolved }
    guard let slash = path.lastIndex(of: "/") else { return realPath(".").map { "\($0)/\(path)" } }
    let folder = slash == path.startIndex ? "/" : String(path[..<slash])
    guard let resolved = realPath(folder) else { return nil }
    return (resolved == "/" ? "" : resolved) + path[slash...]
}

private func realPath(_ path: String) -> String? {
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
}
