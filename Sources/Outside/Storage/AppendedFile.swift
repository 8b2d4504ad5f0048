import Glibc
import Synchronization

/// A file to which bytes are only appended. Appended bytes survive the end of the process, but not always a power
/// failure, because they may be only in the kernel's cache.
///
/// Only the file's owner can read it.
package final class AppendedFile {
    private let descriptor: Int32
    /// The size of the file in bytes.
    package private(set) var size = 0

    /// An error of the system, or the reason why the daemon refuses a file.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String

        init() { description = unsafe String(cString: strerror(errno)) }

        init(_ description: String) { self.description = description }
    }

    /// Creates the file in an existing folder.
    ///
    /// - Throws: an error if the file already exists or cannot be created.
    package init(creating path: String) throws(Failure) {
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Failure() }
    }

    deinit { close(descriptor) }

    /// Appends all of the bytes; if the function throws, the file is treated as unchanged. After a partial write, the
    /// next append overwrites the written bytes.
    package func append(_ bytes: [UInt8]) throws(Failure) {
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[written...])
                return unsafe pwrite(descriptor, rest.baseAddress, rest.count, off_t(size + written))
            }
            if count > 0 {
                written += count
            } else if count == 0 || errno != EINTR {
                throw Failure()
            }
        }
        size += written
    }

    /// Whether a thread is writing a file to the disk, so that a slow disk never has more than one such thread.
    private static let isSyncing = Atomic<Bool>(false)

    /// Begins to write the appended bytes to the disk, on a separate thread. The caller does not wait. While an earlier
    /// order still runs, the new order is not accepted.
    ///
    /// - Returns: whether the order was accepted.
    package func syncLater() -> Bool {
        guard !Self.isSyncing.exchange(true, ordering: .acquiring) else { return false }
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        var thread = pthread_t()
        let code =
            copy < 0
            ? EBADF
            : unsafe pthread_create(
                &thread, nil,
                { context in
                    let copy = Int32(truncatingIfNeeded: Int(bitPattern: context))
                    fdatasync(copy)
                    close(copy)
                    AppendedFile.isSyncing.store(false, ordering: .releasing)
                    return nil
                }, UnsafeMutableRawPointer(bitPattern: Int(copy)))
        guard code == 0 else {
            if copy >= 0 { close(copy) }
            Self.isSyncing.store(false, ordering: .releasing)
            return false
        }
        pthread_detach(thread)
        return true
    }

    /// Returns the contents of a file; the function refuses the file unless only its owner can have written it.
    ///
    /// Only a plain file is read, because reading a pipe would block. A file above the limit is refused, because a file
    /// with holes can be longer than the disk that stores it.
    package static func contents(of path: String, limit: Int = 64 << 20) throws(Failure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw Failure() }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure("it is not a regular file") }
        if let fault = fault(of: status) { throw Failure(fault) }
        guard status.st_size <= off_t(limit) else { throw Failure("it exceeds the maximum length of such a file") }
        var bytes = [UInt8](repeating: 0, count: max(0, Int(status.st_size)))
        var filled = 0
        while filled < bytes.count {
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(
                    descriptor, buffer.baseAddress.map { unsafe $0 + filled }, buffer.count - filled, off_t(filled))
            }
            if count > 0 {
                filled += count
            } else if count == 0 {
                bytes.removeLast(bytes.count - filled)
            } else if errno != EINTR {
                throw Failure()
            }
        }
        return bytes
    }

    /// Returns at most `limit` bytes of a file, from `offset` on; fewer bytes at the end of the file.
    package static func part(of path: String, from offset: Int, limit: Int) throws(Failure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: limit)
        var filled = 0
        while filled < limit {
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
                return unsafe pread(descriptor, rest.baseAddress, rest.count, off_t(offset + filled))
            }
            if count > 0 {
                filled += count
            } else if count == 0 {
                break
            } else if errno != EINTR {
                throw Failure()
            }
        }
        bytes.removeLast(limit - filled)
        return bytes
    }

    /// Creates or replaces a small file, so that a reader finds the old or the new content at any time.
    package static func replace(_ path: String, with bytes: [UInt8]) throws(Failure) {
        let draft = path + ".new"
        remove(draft)
        try AppendedFile(creating: draft).append(bytes)
        try move(draft, to: path)
    }

    /// Renames a file, and replaces an existing file at the new path.
    package static func move(_ path: String, to other: String) throws(Failure) {
        guard unsafe rename(path, other) == 0 else { throw Failure() }
    }

    package static func remove(_ path: String) { unsafe unlink(path) }

    /// Creates a folder that only its owner can use, unless the folder exists.
    package static func makeFolder(_ path: String) throws(Failure) {
        guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure() }
    }

    /// Checks that only this process's user and root can create files in an existing folder.
    ///
    /// - Throws: an error if other users can create files there.
    package static func checkFolder(_ path: String) throws(Failure) {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return }
        if let fault = fault(of: status) { throw Failure(fault) }
    }

    /// An error text if a user other than this process's user and root can write the file; otherwise `nil`.
    private static func fault(of status: stat) -> String? {
        let own = geteuid()
        if own != 0, status.st_uid != own, status.st_uid != 0 { return "it belongs to another user: \(status.st_uid)" }
        return status.st_mode & (S_IWGRP | S_IWOTH) == 0 ? nil : "other users may write to it: chmod go-w"
    }

    /// The names of the files in a folder, in no particular order; empty if the folder does not exist.
    package static func names(in folder: String) -> [String] {
        guard let stream = unsafe opendir(folder) else { return [] }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            names.append(
                unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                    unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
                })
        }
        return names
    }
}
