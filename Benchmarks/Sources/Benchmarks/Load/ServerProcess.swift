import Addressing
import Crypto
import Foundation
import Reactor
import Timekeeping

/// The program under load, which runs as a process in its own folder.
final class ServerProcess {
    /// The address at which the program accepts SIP over UDP.
    let endpoint: Endpoint
    /// The addresses for SIP over TCP and TLS; `nil` if the daemon does not listen there.
    let streams: (tcp: Endpoint, tls: Endpoint)?
    /// The address of the HTTP API, and a key that may report tokens; `nil` without the API.
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
    ///   - tool: the tool that counts the daemon's instructions; `nil` to count nothing.
    ///   - servesAPI: whether the daemon also serves its HTTP API.
    ///   - servesStreams: whether the daemon also accepts TCP and TLS connections.
    ///   - caller: the trusted address from which INVITEs come.
    ///   - pushPort: the port of the push gateway.
    ///   - slowPort: the port of the slow app's push gateway.
    ///   - loop: the loop of the load.
    /// - Throws: a ``BenchmarkError`` with the daemon's last output, if the daemon does not listen.
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

    /// Starts the ``Relay``, which is part of the benchmark program.
    convenience init(relay program: String, pushPort: UInt16, on loop: EventLoop) throws(BenchmarkError) {
        try self.init(
            program: program, settings: { _ in "" }, arguments: { _ in [Relay.command, String(pushPort)] }, on: loop)
    }

    /// Starts a program; `settings` makes the settings' text from the folder's path, and `arguments` the program's
    /// arguments from the settings file's path.
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
            // The program writes to a file, so that no thread must read a pipe during the load.
            process.standardError = try words.openForWriting()
            let words = words
            process.terminationHandler = { _ in loop.post { words.ended() } }
            words.changed = { wait.check() }
            // A signal to the benchmark also ends the program and removes its folder.
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
        // If the benchmark ends by an error, the program may still run.
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        if !keepsFolder { try? FileManager.default.removeItem(at: folder) }
    }

    var processID: Int32 { process.processIdentifier }

    func figures() throws(BenchmarkError) -> ProcessFigures { try ProcessFigures(of: process.processIdentifier) }

    /// Keeps the folder with the program's output, which may show the cause of a failure, and returns the folder's
    /// path.
    func keepFolder() -> String {
        keepsFolder = true
        return folder.path
    }

    func stop() throws(BenchmarkError) {
        process.terminate()
        let words = words
        guard try !wait.wait(atMost: .seconds(60), until: { words.hasEnded }) else { return }
        kill(process.processIdentifier, SIGKILL)
        throw BenchmarkError("the program under load does not end on SIGTERM")
    }

    /// Adds an API key to the store before the daemon opens it.
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

    /// The settings that enable the HTTP API. The preceding settings end with the group `push`, so the text begins
    /// inside this group.
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

    /// The settings that enable TCP and TLS. Limits per source are off, because all phones have the same address. The
    /// settings for TCP and TLS keep idle connections open.
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
        // All phones have the same address, so the limit of REGISTERs per source is off; for TCP and TLS,
        // `streamSettings` switches this limit off.
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

/// The program's standard error, which is written to a file.
///
/// - The class is `@unchecked Sendable`, because only the loop's thread uses it.
private final class LastWords: @unchecked Sendable {
    var changed: () -> Void = {}
    /// The address of each SIP listener, by its transport.
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

    /// Searches the output for listening addresses, every 20 ms until the returned timer is disarmed.
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
        // The log quotes a list of several addresses, but not a single address. The list of addresses is complete when
        // its line is complete.
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
        // The daemon logs the address of the HTTP API before the addresses of SIP.
        if api == nil, let line = text.firstRange(of: "the API accepts requests") {
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
