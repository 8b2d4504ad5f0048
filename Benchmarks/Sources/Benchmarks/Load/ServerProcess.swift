import Addressing
import Crypto
import Foundation
import Reactor
import Timekeeping

/// What is under load: a process of its own, in a folder of its own.
final class ServerProcess {
    /// Where it speaks SIP over UDP.
    let endpoint: Endpoint
    /// Where it takes connections, in TCP and in TLS.
    let streams: (tcp: Endpoint, tls: Endpoint)?
    /// Where its HTTP API is, and a key that may report tokens there.
    let api: (endpoint: Endpoint, key: String)?
    private let process: Process
    private let words: LastWords
    private let loop: EventLoop
    private let wait: LoopWait
    private let signals: [SignalWatch]
    private let folder: URL
    private var keepsFolder = false

    /// Starts the daemon and waits until it listens.
    ///
    /// - Parameters:
    ///   - daemon: the path of `sippushd`.
    ///   - tool: what counts its instructions.
    ///   - servesAPI: whether it serves its HTTP API, too.
    ///   - servesStreams: whether it takes connections, too.
    ///   - caller: whose INVITEs are to be trusted.
    ///   - pushPort: where its pushes go.
    ///   - slowPort: where those of the slow app go.
    ///   - loop: the load's.
    /// - Throws: ``BenchmarkError`` with its last words when it does not come to listen.
    convenience init(
        daemon: String, under tool: Callgrind? = nil, servesAPI: Bool, servesStreams: Bool = false, caller: Endpoint,
        pushPort: UInt16, slowPort: UInt16, on loop: EventLoop
    ) throws(BenchmarkError) {
        try self.init(
            program: daemon, under: tool,
            settings: {
                Self.settings(
                    folder: $0, caller: caller, pushPort: pushPort, slowPort: slowPort, servesStreams: servesStreams)
                    + (servesAPI ? Self.apiSettings(pushPort: pushPort) : "")
                    + (servesStreams ? try Self.streamSettings(folder: $0) : "")
            }, arguments: { ["serve", "--config", $0, "--log-format", "text"] }, servesAPI: servesAPI, on: loop)
    }

    /// Starts the ``Relay``, which this program is too.
    convenience init(relay program: String, pushPort: UInt16, on loop: EventLoop) throws(BenchmarkError) {
        try self.init(
            program: program, settings: { _ in "" }, arguments: { _ in [Relay.command, String(pushPort)] }, on: loop)
    }

    /// The settings' text is made for its folder, the arguments for the file that the text is in.
    private init(
        program: String, under tool: Callgrind? = nil, settings: (String) throws -> String,
        arguments: (String) -> [String], servesAPI: Bool = false, on loop: EventLoop
    ) throws(BenchmarkError) {
        guard FileManager.default.isExecutableFile(atPath: program) else {
            throw BenchmarkError("there is no \(program); build everything first: etc/release")
        }
        let wait = LoopWait(on: loop)
        let process = Process()
        var key = ""
        do {
            folder = FileManager.default.temporaryDirectory.appending(path: "sippushd-benchmark-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            let file = folder.appending(path: "sippushd.yaml")
            try settings(folder.path).write(to: file, atomically: true, encoding: .utf8)
            if servesAPI { key = try Self.makeKey(program, file) }
            words = LastWords(folder.appending(path: "log"))
            process.executableURL = URL(filePath: tool == nil ? program : Callgrind.program)
            process.arguments = (tool?.arguments(for: program) ?? []) + arguments(file.path)
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = FileHandle.nullDevice
            // A file, which nobody has to read while the load runs.
            process.standardError = try words.openForWriting()
            let words = words
            process.terminationHandler = { _ in loop.post { words.ended() } }
            words.changed = { wait.check() }
            // Neither program nor store may outlive the benchmark.
            let folder = folder
            signals = try [SignalWatch.Signal.interrupt, .terminate].map { signal in
                try SignalWatch(signal, on: loop) {
                    kill(process.processIdentifier, SIGKILL)
                    try? FileManager.default.removeItem(at: folder)
                    exit(130)
                }
            }
            try process.run()
        } catch {
            throw BenchmarkError("cannot start \(program): \(error)")
        }
        (self.process, self.wait, self.loop) = (process, wait, loop)
        let words = words
        let looks = try words.lookOften(on: loop)
        _ = try wait.wait(atMost: .seconds(tool == nil ? 20 : 120)) { words.hasEnded || !words.listeners.isEmpty }
        looks.disarm()
        guard let listener = words.listeners["udp"], !words.hasEnded else {
            process.terminate()
            throw BenchmarkError("\(program) does not start\n\(words.text)")
        }
        endpoint = listener
        streams =
            if let tcp = words.listeners["tcp"], let tls = words.listeners["tls"] { (tcp, tls) } else { nil }
        api = words.api.map { ($0, key) }
        if servesAPI, api == nil { throw BenchmarkError("\(program) serves no API\n\(words.text)") }
    }

    deinit {
        // After an error, which ends the benchmark and not the daemon.
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        if !keepsFolder { try? FileManager.default.removeItem(at: folder) }
    }

    var processID: Int32 { process.processIdentifier }

    func figures() throws(BenchmarkError) -> ProcessFigures { try ProcessFigures(of: process.processIdentifier) }

    /// Its last lines and its folder stay for whoever wants to know what went wrong.
    func keepFolder() -> String {
        keepsFolder = true
        return folder.path
    }

    func stop() throws(BenchmarkError) {
        process.terminate()
        let words = words
        guard try !wait.wait(atMost: .seconds(60), until: { words.hasEnded }) else { return }
        kill(process.processIdentifier, SIGKILL)
        throw BenchmarkError("what was under load does not end on SIGTERM")
    }

    /// Into the store, before the daemon has it.
    private static func makeKey(_ program: String, _ file: URL) throws -> String {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: program)
        process.arguments = ["apikey", "add", "benchmark", "--scope", "tokens.report", "--config", file.path]
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw BenchmarkError("no API key") }
        return String(decoding: output, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// These settings are appended to the others, which end within `push`.
    private static func apiSettings(pushPort: UInt16) -> String {
        """
          acrobits:
            enabled: true
            endpoint: http://127.0.0.1:\(pushPort)
        api:
          listen: ["127.0.0.1:0"]
          connections: 10000
          connections-per-source: 10000

        """
    }

    /// As above. One address has all phones, and what is idle stays.
    private static func streamSettings(folder: String) throws -> String {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        try Data(identity.certificate).write(to: URL(filePath: folder + "/tls.pem"))
        try Data(identity.key).write(to: URL(filePath: folder + "/tls-key.pem"))
        return """
            tls: {cert-file: \(folder)/tls.pem, key-file: \(folder)/tls-key.pem}
            limits: {connections-per-source: 50000, first-request: 30m, registers-per-source: 0, handshakes-per-source: 0}

            """
    }

    private static func settings(
        folder: String, caller: Endpoint, pushPort: UInt16, slowPort: UInt16, servesStreams: Bool
    ) -> String {
        let listeners = ["udp"] + (servesStreams ? ["tcp", "tls"] : [])
        // One address has all phones. Where streams are served, their settings say so.
        let limits = servesStreams ? "" : "limits: {registers-per-source: 0}"
        return """
            domains: [\(MessageTexts.domain)]
            listen: [\(listeners.map { "\"\($0):127.0.0.1:0\"" }.joined(separator: ", "))]
            store: \(folder)/store.db
            control: \(folder)/control.sock
            auth: off
            trusted: ["\(caller)"]
            call: {ring-timeout: 180s}
            \(limits)
            push:
              fcm:
                enabled: true
                body-format: legacy
                endpoint: http://127.0.0.1:\(pushPort)
                server-key: k
                params: [\(MessageTexts.app)]
                limits: {queue: 1000000}
                apps:
                  slow:
                    params: [\(MessageTexts.slowApp)]
                    endpoint: http://127.0.0.1:\(slowPort)

            """
    }
}

/// What the program has said on standard error: a file.
///
/// - `@unchecked Sendable` because it is used on the loop's thread alone.
private final class LastWords: @unchecked Sendable {
    var changed: () -> Void = {}
    /// By their kind.
    private(set) var listeners: [String: Endpoint] = [:]
    private(set) var api: Endpoint?
    private(set) var hasEnded = false
    private let file: URL
    private var timer: LoopTimer?

    private static let pause: Duration = .milliseconds(20)

    init(_ file: URL) { self.file = file }

    var text: String { (try? String(contentsOf: file, encoding: .utf8)) ?? "" }

    func openForWriting() throws -> FileHandle {
        try Data().write(to: file)
        return try FileHandle(forWritingTo: file)
    }

    /// Looks for the addresses until the timer is disarmed.
    func lookOften(on loop: EventLoop) throws(BenchmarkError) -> LoopTimer {
        do {
            let timer = try LoopTimer(on: loop) { [unowned self] in
                look()
                self.timer?.arm(at: loop.now + Self.pause)
                changed()
            }
            timer.arm(at: loop.now)
            self.timer = timer
            return timer
        } catch {
            throw BenchmarkError("no timer: \(error)")
        }
    }

    private func look() {
        let text = text
        // One address stands there as it is, several in quotes. The list is complete once its line is.
        let starts = ["listener=udp:", "listener=\"udp:"]
        if listeners.isEmpty, let range = starts.lazy.compactMap({ text.firstRange(of: $0) }).first,
            let end = text[range.upperBound...].firstIndex(of: "\n")
        {
            for word in text[range.lowerBound..<end].dropFirst("listener=".count).split(separator: " ") {
                let parts = word.filter { $0 != "\"" }.split(separator: ":", maxSplits: 1)
                guard parts.count == 2, let endpoint = Endpoint(parts[1]) else { break }
                listeners[String(parts[0])] = endpoint
            }
        }
        // The daemon says this before it says where it speaks SIP.
        if api == nil, let line = text.firstRange(of: "API listens") {
            let rest = text[line.upperBound...]
            if let range = rest.firstRange(of: "listener="),
                let end = rest[range.upperBound...].firstIndex(where: \.isWhitespace)
            {
                api = Endpoint(rest[range.upperBound..<end])
            }
        }
    }

    func ended() {
        hasEnded = true
        changed()
    }
}
