import Glibc
import Reactor

/// A child process, which is killed when its last owner releases it, unless it has ended.
final class ChildProcess: Sendable {
    let id: pid_t
    /// Whether the process was reaped, after which its id may belong to another process.
    private let isReaped = Locked(false)

    init(_ id: pid_t) { self.id = id }

    deinit {
        send(SIGKILL)
        _ = end()
    }

    func send(_ signal: Int32) {
        isReaped.withLock { isReaped in
            if !isReaped { _ = kill(id, signal) }
        }
    }

    /// Blocks until the process has ended, and returns its status. Only one thread at a time may wait for the process.
    ///
    /// - Returns: the status from `waitpid`; 0 if an earlier call has already returned the status.
    func end() -> Int32 {
        if isReaped.withLock({ $0 }) { return 0 }
        var information = unsafe siginfo_t()
        while unsafe waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        return isReaped.withLock { isReaped in
            var status: Int32 = 0
            unsafe waitpid(id, &status, 0)
            isReaped = true
            return status
        }
    }
}
