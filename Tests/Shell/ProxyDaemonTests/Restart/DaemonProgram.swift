import Addressing
import Foundation
import Glibc
import HTTP1Connections
import HTTPClient
import LoopTesting
import StoreTesting
import Testing

@testable import Control

/// The real program `sippushd`, which runs as a child process. The daemon is killed by the test, or when its last owner
/// releases it. Foundation's `Process` is not used, because the address sanitizer reports an error in its child.
final class DaemonProgram: Sendable {
    /// The addresses of the daemon's HTTP API and of its SIP over UDP.
    let api: Endpoint
    let sip: Endpoint
    /// The lines that the daemon printed before it began to serve.
    let beginning: [String]
    private let control: String
    private let child: ChildProcess
    /// The daemon's output lines; `nil` means the end of the output.
    private let lines = Mailbox<String?>()

    struct Failure: Error {
        let sentence: String
    }

    /// Starts the daemon and waits until it serves. The `variables` are added to the environment of the daemon.
    init(settings: String, in folder: StoreFolder, variables: [String: String] = [:]) async throws {
        control = folder.folder + "/control.sock"
        let file = try Self.write(settings, in: folder)
        let (child, output) = try Self.spawn(
            ["serve", "--config", file, "--log-format", "text"], variables: variables)
        self.child = ChildProcess(child)
        let lines = lines
        // Reading has a thread of its own, which blocks, and ends with the child process.
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
            if line.contains("the API accepts requests") { api = Self.endpoint(after: "listener=", in: line) }
            if line.contains("started") { sip = Self.endpoint(after: "udp:", in: line) }
        }
        beginning = words
        self.api = try #require(api)
        self.sip = try #require(sip)
    }

    private static func endpoint(after mark: String, in line: String) -> Endpoint? {
        guard let range = line.firstRange(of: mark) else { return nil }
        return Endpoint(line[range.upperBound...].prefix { !$0.isWhitespace && $0 != "\"" })
    }

    var id: pid_t { child.id }

    /// Kills the daemon without a clean shutdown; any thread may call this function.
    func kill() { child.send(SIGKILL) }

    func terminate() { child.send(SIGTERM) }

    /// Makes the daemon read the settings and certificates again.
    ///
    /// - Returns: the daemon's output since the last call.
    func reload() async throws -> [String] {
        child.send(SIGHUP)
        var said: [String] = []
        while let line = try await lines.next() {
            said.append(line)
            if line.contains("settings reloaded") { break }
        }
        return said
    }

    /// Waits until the daemon has ended. If the task is cancelled, the daemon is killed.
    ///
    /// - Returns: the signal that ended the daemon; 0 if the daemon ended without a signal.
    func ended() async throws -> Int32 {
        let child = child
        let end = Mailbox<Int32>()
        Thread.detachNewThread { end.put(child.end() & 0x7f) }
        do {
            return try await end.next()
        } catch {
            kill()
            throw error
        }
    }

    /// Asks the control socket for the number of the user's contacts.
    func bindingCount(of user: String) throws -> Int {
        var request = HTTPClientRequest(url: "http://sippushd/v1/users/\(user)/devices")
        request.route.unixSocketPath = control
        let response = try HTTPSession.wait(for: request)
        // A user without any device or password does not exist for the daemon.
        if response.status == 404 { return 0 }
        return try JSONDecoder().decode([BindingReport].self, from: Data(response.body)).count
    }

    /// Asks the daemon's control socket for a resource.
    func ask(_ resource: String) throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: "http://sippushd\(resource)")
        request.route.unixSocketPath = control
        return try HTTPSession.wait(for: request)
    }

    /// The daemon's memory in RAM, now and at its peak, in kilobytes.
    func memory() throws -> (now: Int, peak: Int) {
        let status = try String(contentsOfFile: "/proc/\(child.id)/status", encoding: .utf8)
        func number(_ name: String) throws -> Int {
            let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") }
            return try #require(line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) })
        }
        return (try number("VmRSS"), try number("VmHWM"))
    }

    // MARK: The process

    /// The path of a program that was built into the folder of the test runner.
    private static func path(of program: String) -> String {
        guard !program.hasPrefix("/") else { return program }
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(filePath: own).deletingLastPathComponent().appending(path: program).path
    }

    /// Makes the settings that all tests share, with `more` keys in the group `api`.
    static func settings(_ folder: StoreFolder, _ more: String = "") -> String {
        """
        domains: [example.net]
        listen: ["udp:127.0.0.1:0"]
        \(folder.settings)
        control: \(folder.folder)/control.sock
        auth: "off"
        api:
          listen: ["127.0.0.1:0"]
        \(more)
        """
    }

    /// Starts the daemon, runs the body, and then kills the daemon.
    static func with<Result: Sendable>(
        settings: String, in folder: StoreFolder, _ body: (DaemonProgram) async throws -> Result
    ) async throws -> Result {
        let program = try await DaemonProgram(settings: settings, in: folder)
        do {
            let result = try await body(program)
            program.kill()
            _ = try await program.ended()
            return result
        } catch {
            program.kill()
            _ = try? await program.ended()
            throw error
        }
    }

    /// Writes the settings to a file, and returns its path.
    static func write(_ settings: String, in folder: StoreFolder) throws -> String {
        let file = folder.folder + "/sippushd.yaml"
        try Data(settings.utf8).write(to: URL(filePath: file))
        return file
    }

    /// Starts a program, and returns its process id and a descriptor from which its standard error can be read.
    private static func spawn(
        _ arguments: [String], program: String = "sippushd", input: String = "/dev/null", output: String = "/dev/null",
        variables: [String: String] = [:]
    ) throws -> (pid_t, Int32) {
        let path = path(of: program)
        var ends: [Int32] = [0, 0]
        guard unsafe pipe(&ends) == 0 else { throw Failure(sentence: "no pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT, 0o600)
        unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        var words = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
        let environment = ProcessInfo.processInfo.environment.merging(variables) { _, ours in ours }
        var pairs = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        defer { unsafe (words + pairs).forEach { unsafe free($0) } }
        // The child begins in the worst case: all its signals are blocked.
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var blocked = sigset_t()
        unsafe sigfillset(&blocked)
        unsafe posix_spawnattr_setsigmask(&attributes, &blocked)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var child: pid_t = 0
        let code = unsafe posix_spawn(&child, path, &actions, &attributes, &words, &pairs)
        close(ends[1])
        guard code == 0 else {
            close(ends[0])
            throw Failure(sentence: "cannot start \(path): \(code)")
        }
        return (child, ends[0])
    }
}

// MARK: Commands

extension DaemonProgram {
    /// The output of a command, and its exit status.
    struct Ended: Sendable {
        let status: Int32
        let output: String
        let complaint: String
    }

    /// Runs a command of the program, which has to end within the limit.
    static func run(
        _ arguments: [String], program: String = "sippushd", input: String = "", in folder: StoreFolder,
        variables: [String: String] = [:], limit: Duration = .seconds(60)
    ) async throws -> Ended {
        let name = folder.folder + "/" + UUID().uuidString
        try Data(input.utf8).write(to: URL(filePath: name + ".in"))
        let (number, errors) = try spawn(
            arguments, program: program, input: name + ".in", output: name + ".out", variables: variables)
        let child = ChildProcess(number)
        let (status, complaint) = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let complaint = text(from: errors, until: .now + limit)
                close(errors)
                if complaint.isCut { child.send(SIGKILL) }
                continuation.resume(returning: (child.end(), complaint))
            }
        }
        guard !complaint.isCut else {
            throw Failure(sentence: "\(arguments) did not end within \(limit): \(complaint.text)")
        }
        let output = try String(contentsOfFile: name + ".out", encoding: .utf8)
        // A command that a signal has ended has no exit status, so the result is -1.
        return Ended(status: status & 0x7f == 0 ? status >> 8 & 0xff : -1, output: output, complaint: complaint.text)
    }

    /// Reads the output until it ends, or until the deadline.
    private static func text(
        from descriptor: Int32, until deadline: ContinuousClock.Instant
    ) -> (text: String, isCut: Bool) {
        var said: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let left = (deadline - .now) / .milliseconds(1)
            guard left > 0 else { return (String(decoding: said, as: UTF8.self), true) }
            var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard unsafe poll(&waited, 1, Int32(left.rounded(.up))) > 0 else { continue }
            let count = unsafe read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return (String(decoding: said, as: UTF8.self), false) }
            said += buffer[..<count]
        }
    }
}
