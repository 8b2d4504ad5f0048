import Glibc
import Synchronization

/// Receives the lines of the log.
package protocol LogSink: Sendable {
    /// Receives one line. Any thread may call it, and it must not block.
    ///
    /// - Parameter line: printable UTF-8, with a line feed at the end.
    /// - Returns: whether the line was accepted; if not, it is lost.
    func write(_ line: [UInt8]) -> Bool
}

/// Writes the log to standard error. If the reader is too slow, lines are lost, but the daemon never blocks.
package final class StandardErrorSink: LogSink {
    private let descriptor: Int32
    /// Lets only one thread write at a time. Thus lines stay whole, and the check before a write is still valid at the
    /// write.
    private let turn = Mutex(())

    /// Makes a sink. The descriptor still belongs to the caller. Only tests use another one than standard error.
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
