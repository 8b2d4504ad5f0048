import CEvent
import Glibc

/// The write speed and the free space of the disk that contains a folder.
package struct DiskProbe: Hashable, Sendable {
    /// The number of small writes per second that the disk stores permanently (`fdatasync`).
    package let syncsPerSecond: Int
    /// The free space in bytes for users other than root.
    package let freeBytes: UInt64
    package let freeFiles: UInt64
    package let totalFiles: UInt64

    package init(syncsPerSecond: Int, freeBytes: UInt64, freeFiles: UInt64 = 1, totalFiles: UInt64 = 1) {
        self.syncsPerSecond = syncsPerSecond
        self.freeBytes = freeBytes
        self.freeFiles = freeFiles
        self.totalFiles = totalFiles
    }

    private static let longest: Duration = .milliseconds(500)
    private static let mostWrites = 500

    /// Measures the disk by writing a temporary file. No other process can open the temporary file, which is removed at
    /// the end. On a file system without unnamed files, the file has a name for a moment.
    package init(of folder: String) throws(SystemError) {
        let number = try Self.opened(in: folder)
        defer { close(number) }
        let block = [UInt8](repeating: 0, count: 4096)
        let clock = ContinuousClock()
        let start = clock.now
        var writes = 0
        repeat {
            let written = unsafe block.withUnsafeBytes { unsafe pwrite(number, $0.baseAddress, $0.count, 0) }
            guard written == block.count else { throw SystemError(call: "write", code: written < 0 ? errno : ENOSPC) }
            guard fdatasync(number) == 0 else { throw SystemError(call: "fdatasync", code: errno) }
            writes += 1
        } while writes < Self.mostWrites && clock.now - start < Self.longest
        let seconds = (clock.now - start) / .seconds(1)
        var room = statvfs()
        guard unsafe statvfs(folder, &room) == 0 else { throw SystemError(call: "statvfs", code: errno) }
        self.init(
            syncsPerSecond: Int(min(Double(writes) / max(seconds, 0.000_001), 1_000_000)),
            freeBytes: UInt64(room.f_bavail) * UInt64(room.f_frsize), freeFiles: UInt64(room.f_favail),
            totalFiles: UInt64(room.f_files))
    }

    private static func opened(in folder: String) throws(SystemError) -> Int32 {
        let unnamed = unsafe open_unnamed(folder)
        if unnamed >= 0 { return unnamed }
        // The errors EOPNOTSUPP, EISDIR and EINVAL mean that the file system has no unnamed files.
        guard errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL else {
            throw SystemError(call: "open", code: errno)
        }
        var name = Array("\(folder)/.sippushd-probe-XXXXXX".utf8CString)
        let number = unsafe mkstemp(&name)
        guard number >= 0 else { throw SystemError(call: "open", code: errno) }
        unsafe unlink(name)
        return number
    }
}
