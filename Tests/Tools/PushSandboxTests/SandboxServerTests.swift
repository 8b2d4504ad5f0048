import Addressing
import Crypto
import Foundation
import JSON
import LoopTesting
import PushSandbox
import Reactor
import TestSupport
import Testing
import Timekeeping

/// The whole sandbox on a loop, with its certificate written to a file.
private actor Sandbox {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?
    private var hook: PushHook?
    private var timer: LoopTimer?

    init(_ loop: EventLoop) { self.loop = loop }

    func start(authorityFile: URL) throws -> (tls: Endpoint, plain: Endpoint) {
        let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        try Data(certificate.certificate).write(to: authorityFile)
        let semantics = ProviderSemantics { 1_623_753_691_000 }
        let server = SandboxServer(loop: loop, semantics: semantics)
        let context = try TLSContext.server(
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["h2", "http/1.1"])
        self.server = server
        self.semantics = semantics
        return (
            try server.listen(tls: Endpoint(.loopbackV4, 0), context),
            try server.listen(plain: Endpoint(.loopbackV4, 0))
        )
    }

    var records: [PushRecord] { semantics?.records ?? [] }

    func plan(_ token: String, _ plan: String) -> Int? {
        semantics?.answer(
            SandboxRequest(
                method: "PUT", target: "/sandbox/tokens/\(token)", headers: [:], body: Array(plan.utf8),
                version: "http/1.1", connection: 0)
        ).status
    }

    func close() {
        server = nil
        semantics = nil
        hook = nil
        timer = nil
    }

    /// Runs a command for each push, as the sandbox does. When all commands have ended, the mailbox gets the highest
    /// number of commands that ran at the same time.
    func run(_ command: String, times: Int, _ pushes: [PushRecord], ended: Mailbox<Int>) throws {
        let hook = try PushHook(command, on: loop)
        self.hook = hook
        for _ in 0..<times { for push in pushes { hook.pushAccepted(push) } }
        var largest = hook.runningCount
        timer = try LoopTimer(on: loop) {
            largest = max(largest, hook.runningCount)
            guard hook.runningCount > 0 else { return ended.put(hook.droppedCount == 0 ? largest : -1) }
            self.lookAgain()
        }
        lookAgain()
    }

    private func lookAgain() { timer?.arm(at: loop.now + .milliseconds(5)) }
}

private struct Bench {
    let sandbox: Sandbox
    let folder: URL
    let tls: String
    let plain: String

    static func with(_ body: (Bench) async throws -> Void) async throws {
        let home = try TemporaryFolder()
        defer { home.remove() }
        let folder = URL(filePath: home.path)
        try await withLoop { loop in
            let sandbox = Sandbox(loop)
            let addresses = try await sandbox.start(authorityFile: folder.appending(path: "ca.pem"))
            try await body(
                Bench(
                    sandbox: sandbox, folder: folder, tls: "https://\(addresses.tls)",
                    plain: "http://\(addresses.plain)"))
            await sandbox.close()
        }
    }

    /// Runs curl, and returns curl's exit code, the body, and the status with the HTTP version.
    func curl(_ arguments: String...) async throws -> (code: Int32, body: String, summary: String) {
        let file = folder.appending(path: UUID().uuidString).path
        let code = try await Program.run(
            Curl.path,
            [
                "--silent", "--max-time", "20", "--cacert", folder.appending(path: "ca.pem").path, "--write-out",
                "\n%{http_code} %{http_version}",
            ] + arguments, output: file)
        let output = try String(contentsOfFile: file, encoding: .utf8)
        let lines = output.split(separator: "\n", omittingEmptySubsequences: false)
        return (code, lines.dropLast().joined(separator: "\n"), String(lines.last ?? ""))
    }

    func legacy(_ token: String, _ arguments: String..., version: String) async throws -> (
        code: Int32, body: String, summary: String
    ) {
        let url = version == "plain" ? plain : tls
        return try await curl(
            version == "--http2" ? "--http2" : "--http1.1", "--header", "Authorization: key=k", "--data",
            "{\"to\":\"\(token)\"}", "\(url)/fcm/send")
    }
}

private enum Curl {
    static let path = "/usr/bin/curl"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: path)
}

@Suite(
    "Sandbox server", .timeLimit(.minutes(10)),
    .enabled(if: Curl.isInstalled, "curl is not installed: nothing to ask with"))
struct SandboxServerTests {
    @Test(arguments: [
        ("--http2", "200 2", "h2"), ("--http1.1", "200 1.1", "http/1.1"), ("plain", "200 1.1", "http/1.1"),
    ])
    func `each way in leads to the same service`(version: String, summary: String, recorded: String) async throws {
        try await Bench.with { bench in
            let answer = try await bench.legacy("bob", version: version)
            #expect(answer.code == 0 && answer.summary == summary)
            #expect(answer.body.contains(#""success":1"#))
            let records = await bench.sandbox.records
            #expect(records.map(\.version) == [recorded])
        }
    }

    @Test(arguments: ["--http2", "--http1.1"])
    func `requests of a client share its connection`(version: String) async throws {
        try await Bench.with { bench in
            let url = "\(bench.tls)/fcm/send"
            let answer = try await bench.curl(
                version, "--header", "Authorization: key=k", "--data", #"{"to":"a"}"#, url, url, url)
            #expect(answer.code == 0)
            let records = await bench.sandbox.records
            #expect(records.count == 3 && Set(records.map(\.connection)).count == 1)
        }
    }

    @Test(arguments: [1000, 60_000, 70_000, 300_000])
    func `a payload that is too large is answered over HTTP/2`(count: Int) async throws {
        try await Bench.with { bench in
            let file = bench.folder.appending(path: "body")
            try Data("{\"to\":\"\(String(repeating: "x", count: count))\"}".utf8).write(to: file)
            let answer = try await bench.curl(
                "--http2", "--header", "Authorization: key=k", "--data-binary", "@\(file.path)", "\(bench.tls)/fcm/send"
            )
            #expect(answer.code == 0 && answer.summary == (count < 65_000 ? "200 2" : "400 2"))
        }
    }

    @Test(arguments: ["--http2", "--http1.1"])
    func `an answer waits as long as planned`(version: String) async throws {
        try await Bench.with { bench in
            #expect(await bench.sandbox.plan("bob", #"{"delay_ms":60}"#) == 200)
            let start = ContinuousClock.now
            let answer = try await bench.legacy("bob", version: version)
            #expect(answer.code == 0 && answer.summary.hasPrefix("200"))
            #expect(ContinuousClock.now - start >= .milliseconds(60))
        }
    }

    @Test(arguments: ["--http2", "--http1.1", "plain"], ["goaway", "reset"])
    func `a connection breaks as planned`(version: String, action: String) async throws {
        try await Bench.with { bench in
            #expect(await bench.sandbox.plan("bob", #"{"action":"\#(action)","times":1}"#) == 200)
            let broken = try await bench.legacy("bob", version: version)
            // After a GOAWAY, curl can succeed, because it is allowed to repeat a request that was certainly not
            // processed.
            #expect(broken.code != 0 || (action == "goaway" && version == "--http2"))
            #expect(await bench.sandbox.records.first?.status == 0)
            let next = try await bench.legacy("bob", version: version)
            #expect(next.code == 0 && next.summary.hasPrefix("200"))
        }
    }

    @Test(arguments: ["--http2", "--http1.1"])
    func `an answer comes before a GOAWAY that has a status`(version: String) async throws {
        try await Bench.with { bench in
            #expect(await bench.sandbox.plan("bob", #"{"status":503,"action":"goaway"}"#) == 200)
            let answer = try await bench.legacy("bob", version: version)
            #expect(answer.code == 0 && answer.summary.hasPrefix("503"))
        }
    }

    @Test func `the controls answer on the plain port only`() async throws {
        try await Bench.with { bench in
            let put = try await bench.curl(
                "--request", "PUT", "--data", #"{"status":503}"#, "\(bench.plain)/sandbox/tokens/bob")
            #expect(put.summary == "200 1.1")
            let failed = try await bench.legacy("bob", version: "--http2")
            #expect(failed.summary == "503 2")
            let list = try await bench.curl("\(bench.plain)/sandbox/pushes?token=bob")
            let records = try JSONValue(Array(list.body.utf8)).array
            #expect(records?.count == 1 && records?.first?["status"]?.integer == 503)
            let elsewhere = try await bench.curl("\(bench.tls)/sandbox/pushes")
            #expect(elsewhere.summary == "404 2")
        }
    }

    @Test func `a hook gets the push in its environment, so many at a time`() async throws {
        try await Bench.with { bench in
            _ = try await bench.curl(
                "--header", "Authorization: key=k", "--data", #"{"to":"$(false)","data":{"type":"invite"}}"#,
                "\(bench.plain)/fcm/send")
            let pushes = await bench.sandbox.records
            let file = bench.folder.appending(path: "hook").path
            let command = "printf '%s|' \"$PUSH_SERVICE\" \"$PUSH_TOKEN\" \"$PUSH_TYPE\" \"$PUSH_BODY\" >>'\(file)'"
            let ended = Mailbox<Int>()
            try await bench.sandbox.run(command, times: 40, pushes, ended: ended)
            try await ended.expect(PushHook.runningLimit)
            let text = try String(contentsOfFile: file, encoding: .utf8)
            #expect(text.hasPrefix(#"fcm|$(false)|invite|{"to":"$(false)","data":{"type":"invite"}}|"#))
            #expect(text.count { $0 == "|" } == 160)
        }
    }
}
