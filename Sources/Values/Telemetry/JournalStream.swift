import Glibc

/// Finds out whether journald reads the output of this process.
package enum JournalStream {
    /// The environment variable in which systemd names the device and inode of journald's socket (systemd.exec(5)).
    package static let variable = "JOURNAL_STREAM"

    /// Whether the descriptor is the socket of journald that the environment variable names. The result is false if the
    /// output was redirected elsewhere.
    ///
    /// - Parameters:
    ///   - descriptor: the file descriptor to which lines are written.
    ///   - name: the value of ``variable``; `nil` if systemd did not set it.
    /// - Returns: whether journald reads the log lines.
    package static func isBehind(_ descriptor: Int32 = STDERR_FILENO, named name: String?) -> Bool {
        guard let name else { return false }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return false }
        return name == "\(status.st_dev):\(status.st_ino)"
    }
}
