import Glibc
import Synchronization

/// Takes the lines of the log.
package protocol LogSink: Sendable {
    /// Takes one line with its line feed; called from any thread, must not block.
    ///
    /// - Parameter line: printable UTF-8 and a line feed.
    /// - Returns: whether the line was taken; `false` when it is lost.
    func write(_ line: [UInt8]) -> Bool
}

/// Standard error. A reader that does not keep up loses lines; it never stops the daemon.
package final class StandardErrorSink: LogSink {
    private let descriptor: Int32
    /// Lets one thread write at a time, so that lines stay whole and what was checked before the write still holds.
    private let turn = Mutex(())

    /// The descriptor stays the caller's; it is 2 except in tests.
    package init(descriptor: Int32 = STDERR_FILENO) { self.descriptor = descriptor }

    package func write(_ line: [UInt8]) -> Bool {
        turn.withLock { _ in
            var rest = line[...]
            while !rest.isEmpty {
                var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard unsafe poll(&request, 1, 0) == 1, request.revents & Int16(POLLOUT) != 0 else { return false }
                let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }
}
