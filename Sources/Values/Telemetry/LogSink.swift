import Glibc
import Synchronization

/// Receives the lines of the log, and writes them somewhere.
package protocol LogSink: Sendable {
    /// Writes one line, without blocking, from any thread.
    ///
    /// - Parameter line: printable UTF-8, with a line feed at the end.
    /// - Returns: whether the sink accepted the line; a refused line is lost.
    func write(_ line: [UInt8]) -> Bool
}

/// Writes the log to standard error without blocking; lines are lost if the reader is too slow.
package final class StandardErrorSink: LogSink {
    private let descriptor: Int32
    /// Lets only one thread write at a time, so that lines stay whole. The lock also covers the check whether the
    /// descriptor is writable, so the descriptor is still writable when the thread writes.
    private let turn = Mutex(())

    /// Makes a sink for a descriptor, which stays open. Only tests use another descriptor than standard error.
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
