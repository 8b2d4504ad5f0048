import Glibc
import Reactor

/// A process that is killed with its last owner, if it has not ended before.
final class ChildProcess: Sendable {
    let id: pid_t
    /// Its number may be another's then.
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

    /// Blocks until it has ended. To be asked once at a time.
    ///
    /// - Returns: its status, as `waitpid` has it; 0 when it was asked for before.
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
