import Glibc

/// A file to which bytes are only appended. After ``append(_:)``, the bytes are in the kernel's cache, so they survive
/// the end of the process, but not always a power failure.
///
/// Only the owner of an appended file can read it.
package final class AppendedFile {
    private let descriptor: Int32
    /// The size in bytes of the file to which bytes are appended.
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

    /// Appends all of the bytes to the file; if the function throws, the file is unchanged. If an append to the file
    /// fails in the middle, the next append overwrites the bytes that were written.
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

    /// Returns the contents of a file; the function refuses the file unless only its owner can have written it.
    ///
    /// A file that is not a plain file is refused too, because reading a pipe would block. If a file is longer than the
    /// limit, it is refused, because a file with holes can be longer than its disk.
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

    /// Renames a file, and replaces an existing file at the new path.
    package static func move(_ path: String, to other: String) throws(Failure) {
        guard unsafe rename(path, other) == 0 else { throw Failure() }
    }

    package static func remove(_ path: String) { unsafe unlink(path) }

    /// Creates a folder that only its owner can use. If the folder exists already, it stays unchanged.
    package static func makeFolder(_ path: String) throws(Failure) {
        guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure() }
    }

    /// Checks that only this process's user and root can create files in an existing folder.
    ///
    /// - Throws: an error if other users can create files in the folder.
    package static func checkFolder(_ path: String) throws(Failure) {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return }
        if let fault = fault(of: status) { throw Failure(fault) }
    }

    /// An error text if another user than this process's user and root can write the file; `nil` if nobody else can.
    private static func fault(of status: stat) -> String? {
        let own = geteuid()
        if own != 0, status.st_uid != own, status.st_uid != 0 { return "it belongs to another user: \(status.st_uid)" }
        return status.st_mode & (S_IWGRP | S_IWOTH) == 0 ? nil : "other users may write to it: chmod go-w"
    }

    /// The names of the files in a folder, in no particular order. If the folder does not exist, the list of names is
    /// empty.
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
