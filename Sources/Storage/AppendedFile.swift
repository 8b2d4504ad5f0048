import Glibc

/// A file that is written at its end only. What was appended is the kernel's: the end of the process does not take it away, a
/// power failure may.
///
/// Its owner alone may read it.
package final class AppendedFile {
    private let descriptor: Int32
    /// How many bytes were appended.
    package private(set) var size = 0

    /// What the system says.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String

        init() { description = unsafe String(cString: strerror(errno)) }
    }

    /// Makes the file, in a folder that is there.
    ///
    /// - Throws: also when there is such a file.
    package init(creating path: String) throws(Failure) {
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Failure() }
    }

    deinit { close(descriptor) }

    /// All of the bytes, or none: after a failure the next take their place.
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

    /// All that a file holds.
    package static func contents(of path: String) throws(Failure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw Failure() }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw Failure() }
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

    package static func remove(_ path: String) { unsafe unlink(path) }

    /// Makes a folder for its owner alone, unless there is one.
    package static func makeFolder(_ path: String) throws(Failure) {
        guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure() }
    }

    /// The names in a folder, without order; none when there is no folder.
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
