import Foundation
import Glibc
package import Reactor
import Timekeeping

/// Runs a shell command for each accepted push. The push is in environment variables, so that the shell executes no
/// part of it.
///
/// Only its event loop uses the hook. A command that still runs when the program ends is not stopped.
package final class PushHook {
    private let command: String
    private let loop: EventLoop
    private var waiting: [PushRecord] = []
    private var running: [pid_t] = []
    private var timer: LoopTimer?
    /// The number of pushes for which no command was started.
    private(set) package var droppedCount = 0

    package static let runningLimit = 32
    private static let waitingLimit = 1000
    /// How often the hook checks whether commands have ended. SIGCHLD is not used, because only one event loop of a
    /// process can watch signals.
    private static let reapInterval: Duration = .milliseconds(20)

    package init(_ command: String, on loop: EventLoop) throws(SystemError) {
        self.command = command
        self.loop = loop
        timer = try LoopTimer(on: loop) { [weak self] in self?.reap() }
    }

    /// Runs the command for a push, or queues the push if too many commands are running.
    package func pushAccepted(_ record: PushRecord) {
        guard waiting.count < Self.waitingLimit else {
            droppedCount += 1
            return
        }
        waiting.append(record)
        startWaiting()
    }

    package var runningCount: Int { running.count }

    private func startWaiting() {
        while running.count < Self.runningLimit, !waiting.isEmpty {
            if let child = spawn(waiting.removeFirst()) { running.append(child) } else { droppedCount += 1 }
        }
        if !running.isEmpty { timer?.arm(at: loop.now + Self.reapInterval) }
    }

    private func reap() {
        running.removeAll { child in
            var status: Int32 = 0
            return unsafe waitpid(child, &status, WNOHANG) != 0
        }
        startWaiting()
    }

    /// Starts the command (`--on-push`) for a push. The command's standard output goes to standard error, because the
    /// record of pushes may go to standard output.
    private func spawn(_ record: PushRecord) -> pid_t? {
        var environment = ProcessInfo.processInfo.environment
        environment["PUSH_SERVICE"] = record.service
        environment["PUSH_TOKEN"] = record.token
        environment["PUSH_TYPE"] = record.type
        environment["PUSH_BODY"] = record.body

        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        guard unsafe posix_spawn_file_actions_init(&actions) == 0 else { return nil }
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        guard unsafe posix_spawnattr_init(&attributes) == 0 else { return nil }
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        unsafe posix_spawn_file_actions_adddup2(&actions, 2, 1)
        // The signals get their default handling. The event loop ignores SIGPIPE, but a shell needs SIGPIPE to end
        // pipelines.
        var (standard, blocked) = (sigset_t(), sigset_t())
        unsafe sigemptyset(&blocked)
        unsafe sigemptyset(&standard)
        unsafe sigaddset(&standard, SIGPIPE)
        unsafe posix_spawnattr_setsigdefault(&attributes, &standard)
        unsafe posix_spawnattr_setsigmask(&attributes, &blocked)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))

        let variables = environment.map { "\($0.key)=\($0.value)" }
        return unsafe withCStrings(["/bin/sh", "-c", command]) { arguments in
            unsafe withCStrings(variables) { variables in
                var child: pid_t = 0
                let code = unsafe posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, variables)
                return code == 0 ? child : nil
            }
        }
    }

    /// Calls `body` with the texts as a C array of strings, ended by a null pointer.
    private func withCStrings<Result>(
        _ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result?
    ) -> Result? {
        let pointers = unsafe texts.map { unsafe strdup($0) }
        defer { unsafe pointers.forEach { unsafe free($0) } }
        return unsafe (pointers + [nil]).withUnsafeBufferPointer { list in
            unsafe list.baseAddress.flatMap { unsafe body($0) }
        }
    }
}
