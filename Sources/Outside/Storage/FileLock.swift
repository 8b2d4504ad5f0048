import Glibc

/// A file that one process at a time holds, for as long as it lives or until it lets go: `flock`, which the kernel ends with
/// the process, whatever ended that. The file stays; what stands in it is the process's number and what that is doing, and a
/// mark that outlives the process, if one was set.
package final class FileLock: @unchecked Sendable {
    // `@unchecked` because the descriptor is closed once, by whoever lets go or by the last owner.
    private var descriptor: Int32

    /// Why the lock was not taken.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// Another process has it: its number, where the file tells, and what it said of itself.
        case held(by: Int32?, activity: String)
        /// What the system says.
        case system(String)

        package var description: String {
            switch self {
            case .held(let process, _): "process \(process.map { "\($0)" } ?? "of unknown number") has it"
            case .system(let reason): reason
            }
        }
    }

    /// - Parameters:
    ///   - path: the lock's own file; made when it is not there.
    ///   - activity: one word for whoever finds the lock taken.
    /// - Throws: who has it, or what the system says.
    package init(path: String, activity: String) throws(Failure) {
        descriptor = try Self.take(path, activity)
    }

    /// Locks the file that has the name now, where somebody has taken that from the locked one: whoever came next would
    /// lock the other.
    ///
    /// - Returns: whether that had to be done.
    /// - Throws: as when it was taken first; the old lock stays.
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
            // Whoever held it before may have been told to remove the file: then it locks nobody out.
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

    /// Adds a word that stays in the file for whoever holds it next.
    ///
    /// - Throws: what the system says.
    package func mark(_ word: StaticString) throws(Failure) {
        try Self.write((Self.words(of: descriptor).prefix(2) + ["\(word)"]).joined(separator: " "), to: descriptor)
    }

    /// Whether the file has that mark. Nobody needs to hold it.
    package static func hasMark(_ word: StaticString, path: String) -> Bool {
        let opened = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard opened >= 0 else { return false }
        defer { close(opened) }
        return words(of: opened).dropFirst(2).first == "\(word)"
    }

    deinit { release() }

    /// Lets go. Nothing happens the second time.
    package func release() {
        guard descriptor >= 0 else { return }
        Self.unlock(descriptor)
        descriptor = -1
    }

    /// Closing alone would leave the lock to a child process that has just been forked and holds a copy of the descriptor
    /// until it runs its own program.
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

/// Which file a path names, whatever else it is called. Asks without opening it.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64

    /// `nil` when there is none. Follows symbolic links.
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

/// A path without symbolic links; the last part need not be there.
///
/// - Returns: `nil` when the folder is not there.
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
