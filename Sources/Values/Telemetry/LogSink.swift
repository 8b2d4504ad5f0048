import Glibc
import Synchronization

/// Receives the lines of the log.
package protocol LogSink: Sendable {
    /// Receives one line with its line feed. Called from any thread; must not block.
    ///
    /// - Parameter line: printable UTF-8 and a line feed.
    /// - Returns: whether the line was accepted; `false` if it is lost.
    func write(_ line: [UInt8]) -> Bool
}

/// Standard error. A reader that is too slow loses lines; it never blocks the daemon.
package final class StandardErrorSink: LogSink {
    private let descriptor: Int32
    /// Lets one thread write at a time, so that lines stay whole and a check before the write is still valid.
    private let turn = Mutex(())

    /// The descriptor still belongs to the caller; it is 2 except in tests.
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
