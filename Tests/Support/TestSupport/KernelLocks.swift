import Glibc

/// Reads the POSIX locks from the kernel's list (`/proc/locks`).
package enum KernelLocks {
    /// Finds the POSIX locks of a process on a file.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - process: the process that holds the locks.
    /// - Returns: the kind, first byte and last byte of each lock; `nil` if the file does not exist or the list cannot
    ///   be read.
    package static func of(_ path: String, heldBy process: Int32) -> Set<String>? {
        var status = stat()
        guard unsafe stat(path, &status) == 0, let text = list() else { return nil }
        var locks: Set<String> = []
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count == 8, fields[1] == "POSIX", fields[4] == "\(process)",
                fields[5].hasSuffix(":\(status.st_ino)")
            else { continue }
            locks.insert("\(fields[3]) \(fields[6]) \(fields[7])")
        }
        return locks
    }

    /// Reads the kernel's list of locks to its end, because a read returns at most one memory page.
    private static func list() -> String? {
        let descriptor = unsafe open("/proc/locks", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe read(descriptor, &piece, piece.count)
            guard count >= 0 else { return nil }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
    }
}
