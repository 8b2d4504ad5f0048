import Addressing
import Collections
import Crypto
import Foundation
import LoopTesting
import Persistence
import ProviderTesting
import PushSandbox
import Reactor
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import HTTPServices

/// The sender of webhooks without the rest of the API. In these tests, every host name has the address 127.0.0.1.
private actor WebhookBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let log = MemoryLogSink()
    private var sender: WebhookSender?
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?

    init(_ loop: EventLoop) { self.loop = loop }

    func start(timeout: Duration = .seconds(10), _ change: (inout DeviceRegistrationSettings) -> Void) {
        var settings = DeviceRegistrationSettings()
        settings.privateReceivers = [AddressBlock("127.0.0.0/8")].compactMap(\.self)
        change(&settings)
        sender = WebhookSender(
            settings: settings, timeout: timeout, loop: loop,
            log: Log(level: .debug, sink: log) { UnixTime(milliseconds: 0) }, ownEndpoints: { [] },
            resolve: { _, done in done([.loopbackV4]) })
    }

    func send(to url: String) {
        sender?.post(.success, to: DeviceCallback(url: url, signature: "s", fields: ""))
    }

    /// Sends the webhook, and waits until it is delivered or dropped.
    ///
    /// - Returns: the reason why the webhook was dropped; `nil` if the webhook was delivered.
    nonisolated func lose(_ url: String) async throws -> String? {
        await send(to: url)
        while await openWebhooks > 0 {
            try Task.checkCancellation()
            await Task.yield()
        }
        let line = log.lines.last { $0.contains("a webhook could not be delivered, so the daemon dropped it") }
        return line.map { String($0[($0.firstRange(of: "reason=")?.upperBound ?? $0.startIndex)...]) }
    }

    private var openWebhooks: Int { sender.map { $0.waiting.count + $0.inFlight } ?? 0 }

    /// Reads the certificate authorities again, as a daemon does at SIGHUP.
    func reload() { sender?.readAuthority() }

    /// Starts a webhook receiver with TLS, and returns its port.
    func receive(with certificate: SelfSignedCertificate) throws -> UInt16 {
        let semantics = ProviderSemantics { 0 }
        let server = SandboxServer(loop: loop, semantics: semantics)
        let context = try TLSContext.server(
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["http/1.1"])
        (self.server, self.semantics) = (server, semantics)
        return try server.listen(tls: Endpoint(.loopbackV4, 0), context).port
    }

    var received: [PushRecord] { semantics?.records ?? [] }

    func close() {
        sender?.close()
        (sender, server, semantics) = (nil, nil, nil)
    }
}

@Suite("Sending webhooks", .timeLimit(.minutes(10)))
struct WebhookSenderTests {
    private func withSender(
        timeout: Duration = .seconds(10), reply: FakeProvider.Reply = .answer(202),
        _ change: @Sendable (inout DeviceRegistrationSettings) -> Void = { $0.allowsPlainWebhooks = true },
        _ body: (WebhookBench, FakeProvider, String) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let receiver = FakeProvider(loop) { _, _ in reply }
            let url = try await receiver.listen()
            let bench = WebhookBench(loop)
            await bench.start(timeout: timeout, change)
            try await body(bench, receiver, url)
            await bench.close()
            await receiver.close()
        }
    }

    @Test(arguments: [200, 202, 204, 299])
    func `any 2xx is delivered`(status: Int) async throws {
        try await withSender(reply: .answer(status)) { (bench, receiver, url) async throws in
            #expect(try await bench.lose("\(url)/a") == nil)
            #expect(await receiver.requestCount() == 1)
        }
    }

    @Test(arguments: [300, 301, 302, 303, 307, 308, 400, 401, 404, 410, 429, 500, 503])
    func `anything else is lost, and nothing follows it`(status: Int) async throws {
        let reply = FakeProvider.Reply.answer(status, headers: "location: /elsewhere\r\nretry-after: 0\r\n")
        try await withSender(reply: reply) { (bench, receiver, url) async throws in
            let reason = try #require(try await bench.lose("\(url)/a?secret"))
            #expect(reason.contains("status \(status)"))
            #expect(await receiver.requestCount() == 1)
            #expect(!bench.log.lines.contains { $0.contains("secret") })
        }
    }

    @Test(arguments: [(65_535, true), (65_536, true), (65_537, false)])
    func `an answer has 64 KiB`(count: Int, isTaken: Bool) async throws {
        try await withSender(reply: .answer(200, String(repeating: "x", count: count))) {
            (bench, _, url) async throws in
            let reason = try await bench.lose(url)
            #expect((reason == nil) == isTaken)
            #expect(reason?.contains("bodyTooLarge") ?? isTaken)
        }
    }

    @Test func `a silent receiver is not waited for without end`() async throws {
        try await withSender(timeout: .milliseconds(50), reply: .silence) { (bench, receiver, url) async throws in
            let reason = try #require(try await bench.lose(url))
            #expect(reason.contains("timeout"))
            // On a busy machine, the time limit can end before the request arrives.
            #expect(await receiver.requestCount() <= 1)
        }
    }

    @Test func `plain HTTP is refused unless it is allowed`() async throws {
        try await withSender({ _ in }) { (bench, receiver, url) async throws in
            let reason = try #require(try await bench.lose(url))
            #expect(reason.contains("the callback URL has a form that is not accepted"))
            #expect(await receiver.connectionCount == 0)
        }
    }

    @Test func `the URL's path and query are sent as they came, up to 2048 bytes`() async throws {
        try await withSender { (bench, receiver, url) async throws in
            let start = "\(url)/%7Ea;b=c//d/?x=%20&y=[1]&z='|^`{}"
            let longest = start + String(repeating: "a", count: 2048 - start.utf8.count)
            #expect(try await bench.lose(longest) == nil)
            #expect(try await receiver.requests.next().path == String(longest.dropFirst(url.count)))
            let reason = try #require(try await bench.lose(longest + "a"))
            #expect(reason.contains("the callback URL has a form that is not accepted"))
            #expect(await receiver.requestCount() == 1)
        }
    }

    @Test func `over TLS the certificate must be the host's, from a trusted authority`() async throws {
        try await withFolder { folder in
            let certificate = try SelfSignedCertificate(hosts: ["hooks.example.net"])
            let file = folder.path + "/ca.pem"
            try Data(certificate.certificate).write(to: URL(filePath: file))
            for (host, authority, isDelivered) in [
                ("hooks.example.net", file, true), ("Hooks.Example.NET", file, true),
                ("other.example.net", file, false), ("127.0.0.1", file, false), ("hooks.example.net", nil, false),
            ] {
                try await withLoop { loop in
                    let bench = WebhookBench(loop)
                    await bench.start { $0.webhookAuthorityFile = authority }
                    let port = try await bench.receive(with: certificate)
                    let reason = try await bench.lose("https://\(host):\(port)/hook/a")
                    #expect((reason == nil) == isDelivered, "\(host)")
                    #expect(isDelivered || reason?.contains("tls") == true)
                    #expect(await bench.received.count == (isDelivered ? 1 : 0))
                    await bench.close()
                }
            }
        }
    }

    @Test func `the authorities are read again, and broken ones change nothing`() async throws {
        try await withFolder { folder in
            let certificate = try SelfSignedCertificate(hosts: ["hooks.example.net"])
            let file = folder.path + "/ca.pem"
            func write(_ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(filePath: file)) }
            try write(try SelfSignedCertificate(hosts: ["hooks.example.net"]).certificate)
            try await withLoop { loop in
                let bench = WebhookBench(loop)
                await bench.start { $0.webhookAuthorityFile = file }
                let port = try await bench.receive(with: certificate)
                #expect(try await bench.lose("https://hooks.example.net:\(port)/hook/a") != nil)
                try write(certificate.certificate)
                await bench.reload()
                await bench.send(to: "https://hooks.example.net:\(port)/hook/b")
                try write(Array("broken".utf8))
                await bench.reload()
                #expect(
                    bench.log.lines.contains {
                        $0.contains("the certificate was not reloaded, so the old certificate stays in use")
                            && $0.contains("ca.pem")
                    })
                _ = try await bench.lose("https://hooks.example.net:\(port)/hook/c")
                #expect(await bench.received.count == 2)
                await bench.close()
            }
        }
    }
}
