import Addressing
import Foundation
import Glibc
import HTTPClient
import LoopTesting
import Testing

@testable import ProxyRuntime

/// The real `sippushd`, as a process that can be killed. Not Foundation's `Process`: the address sanitizer takes what that
/// does in the child for an error.
final class DaemonProgram: Sendable {
    /// Where its HTTP API and its SIP over UDP are.
    let api: Endpoint
    let sip: Endpoint
    private let control: String
    private let child: pid_t

    struct Failure: Error {
        let sentence: String
    }

    /// Starts it, and waits until it serves; `variables` stand in its environment besides our own.
    init(settings: String, in folder: StoreFolder, variables: [String: String] = [:]) async throws {
        control = folder.folder + "/control.sock"
        let file = try Self.write(settings, in: folder)
        let (child, output) = try Self.spawn(
            ["serve", "--config", file, "--log-format", "text"], reading: STDERR_FILENO, variables)
        self.child = child
        let lines = Mailbox<String?>()
        // A thread of its own, as reading blocks; it ends with the child.
        Thread.detachNewThread {
            var rest: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = unsafe read(output, &buffer, buffer.count)
                guard count > 0 else { break }
                rest += buffer[..<count]
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    lines.put(String(decoding: rest[..<end], as: UTF8.self))
                    rest.removeSubrange(...end)
                }
            }
            close(output)
            lines.put(nil)
        }
        var api: Endpoint?
        var sip: Endpoint?
        var words: [String] = []
        while sip == nil {
            guard let line = try await lines.next() else {
                throw Failure(sentence: "it does not start: \(words.joined(separator: "\n"))")
            }
            words.append(line)
            if line.contains("API listens") { api = Self.endpoint(after: "listener=", in: line) }
            if line.contains("started") { sip = Self.endpoint(after: "listener=udp:", in: line) }
        }
        self.api = try #require(api)
        self.sip = try #require(sip)
    }

    private static func endpoint(after mark: String, in line: String) -> Endpoint? {
        guard let range = line.firstRange(of: mark) else { return nil }
        return Endpoint(line[range.upperBound...].prefix { !$0.isWhitespace && $0 != "\"" })
    }

    /// Without a chance to say goodbye; from any thread.
    func kill() { _ = Glibc.kill(child, SIGKILL) }

    /// Waits for its end.
    ///
    /// - Returns: the signal that ended it; 0 when it ended by itself.
    func ended() async -> Int32 {
        let child = child
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var status: Int32 = 0
                while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
                continuation.resume(returning: status & 0x7f)
            }
        }
    }

    /// The contacts of a user, by the control socket.
    func bindingCount(of user: String) throws -> Int {
        var request = HTTPClientRequest(url: "http://sippushd/v1/users/\(user)/devices")
        request.unixSocketPath = control
        let response = try HTTPSession.wait(for: request)
        return try JSONDecoder().decode([BindingReport].self, from: Data(response.body)).count
    }

    // MARK: The process

    /// The build puts it beside the program that runs the tests.
    private static var path: String {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(filePath: own).deletingLastPathComponent().appending(path: "sippushd").path
    }

    /// - Returns: the settings' path.
    static func write(_ settings: String, in folder: StoreFolder) throws -> String {
        let file = folder.folder + "/sippushd.yaml"
        try Data(settings.utf8).write(to: URL(filePath: file))
        return file
    }

    /// Runs another command to its end.
    ///
    /// - Returns: what it printed; `nil` when it failed.
    static func output(of arguments: [String]) async throws -> String? {
        let (child, output) = try spawn(arguments, reading: STDOUT_FILENO)
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var all: [UInt8] = []
                var buffer = [UInt8](repeating: 0, count: 4096)
                while true {
                    let count = unsafe read(output, &buffer, buffer.count)
                    guard count > 0 else { break }
                    all += buffer[..<count]
                }
                close(output)
                var status: Int32 = 0
                while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
                continuation.resume(returning: status == 0 ? String(decoding: all, as: UTF8.self) : nil)
            }
        }
    }

    /// - Returns: the process, and a descriptor to read that output of it from; the other is thrown away.
    private static func spawn(
        _ arguments: [String], reading wanted: Int32, _ variables: [String: String] = [:]
    ) throws -> (pid_t, Int32) {
        var ends: [Int32] = [0, 0]
        guard unsafe pipe(&ends) == 0 else { throw Failure(sentence: "no pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for number in [STDOUT_FILENO, STDERR_FILENO] {
            if number == wanted {
                unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], number)
            } else {
                unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_WRONLY, 0)
            }
        }
        var words = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
        let environment = ProcessInfo.processInfo.environment.merging(variables) { _, ours in ours }
        var pairs = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        defer { unsafe (words + pairs).forEach { unsafe free($0) } }
        var child: pid_t = 0
        let code = unsafe posix_spawn(&child, path, &actions, nil, &words, &pairs)
        close(ends[1])
        guard code == 0 else {
            close(ends[0])
            throw Failure(sentence: "cannot start \(path): \(code)")
        }
        return (child, ends[0])
    }
}
