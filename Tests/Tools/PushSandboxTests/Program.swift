import Foundation
import Glibc

/// Runs a program until it ends. Foundation's `Process` is not used, because the address sanitizer reports an error in
/// its child.
enum Program {
    struct Failure: Error {
        let code: Int32
    }

    /// Runs a program.
    ///
    /// - Parameters:
    ///   - path: the path of the program.
    ///   - arguments: the arguments, without the program's name.
    ///   - output: the file for the program's standard output.
    /// - Returns: the exit code, or 128 plus the number of the signal that killed it.
    /// - Throws: ``Failure`` if the program cannot be started.
    static func run(_ path: String, _ arguments: [String], output: String) async throws -> Int32 {
        let child = try start(path, arguments, output: output)
        return await withCheckedContinuation { continuation in
            // A separate thread waits for the end of the program, because the waiting blocks the thread.
            Thread.detachNewThread {
                var status: Int32 = 0
                while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
                let signal = status & 0x7F
                continuation.resume(returning: signal == 0 ? status >> 8 & 0xFF : 128 + signal)
            }
        }
    }

    private static func start(_ path: String, _ arguments: [String], output: String) throws -> pid_t {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        unsafe posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var words = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
        var variables =
            unsafe ProcessInfo.processInfo.environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        defer { unsafe (words + variables).forEach { unsafe free($0) } }
        var child: pid_t = 0
        let code = unsafe posix_spawn(&child, path, &actions, nil, &words, &variables)
        guard code == 0 else { throw Failure(code: code) }
        return child
    }
}
