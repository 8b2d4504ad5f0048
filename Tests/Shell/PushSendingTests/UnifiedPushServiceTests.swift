import Addressing
import Bytes
import Crypto
import Foundation
import HTTPClient
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Reactor
import Telemetry
import Testing
import Timekeeping

@testable import PushSending

private func device(_ subscription: Providers.Subscription) -> PushToken {
    PushToken(provider: .webPush, param: ByteString(subscription.keys), prid: ByteString(subscription.url))
}

/// Runs a test with a push server of UnifiedPush, which the settings allow as a host of the operator's own network.
private func withPushServer(
    plans: [String: String] = [:], _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withAllProviders(
        plans: plans,
        changing: { settings, url in
            settings.webPush.hosts = WebPushSettings().hosts
            settings.webPush.privateHosts = [try WebPushHost(parsing: String(url.dropFirst("https://".count)))]
        }, body)
}

@Suite("Pushes to push servers of UnifiedPush", .timeLimit(.minutes(10)))
struct UnifiedPushServiceTests {
    @Test func `only the device can read them, and our key signs them`() async throws {
        try await withPushServer { (bench, providers) async throws in
            let key = try #require(await bench.vapidKey)
            await bench.send(1, to: device(try await providers.subscribe("a", sender: key, service: "unifiedpush")))
            #expect(try await bench.outcomes.next().1 == .accepted(nil))
            let record = try #require(await providers.records.first)
            #expect(record.service == "unifiedpush" && record.status == 201)
            #expect(record.headers["urgency"] == "high" && record.headers["content-encoding"] == "aes128gcm")
            #expect(record.body.contains(#""call_id":"a84b4c76e66710""#))
            #expect(await bench.report("webpush/unifiedpush").hosts.first?.accepted == 1)
            #expect(await bench.report("webpush").sent == 0)
        }
    }

    @Test(arguments: [
        (#"{"status":410}"#, PushOutcome.tokenDead(since: nil)), (#"{"status":404}"#, .tokenDead(since: nil)),
        (#"{"status":401}"#, .credentialsRefused("status 401")),
        (#"{"status":403,"reason":"words of a stranger"}"#, .credentialsRefused("status 403")),
        (#"{"status":413,"times":1}"#, .accepted(nil)), (#"{"status":413}"#, .payloadRefused("status 413")),
        (#"{"status":503,"times":1}"#, .accepted(nil)),
        (#"{"status":429,"times":1,"retry_after":1}"#, .accepted(nil)),
    ])
    func `each error has its consequence`(plan: String, expected: PushOutcome) async throws {
        try await withPushServer(plans: ["a": plan]) { (bench, providers) async throws in
            await bench.send(1, to: device(try await providers.subscribe("a", service: "unifiedpush")))
            #expect(try await bench.outcomes.next().1 == expected)
        }
    }

    @Test func `an endpoint that nobody has subscribed is dead`() async throws {
        try await withPushServer { (bench, providers) async throws in
            let other = try await providers.subscribe("a", service: "unifiedpush")
            let gone = Providers.Subscription(url: other.url + "x", keys: other.keys)
            await bench.send(1, to: device(gone))
            #expect(try await bench.outcomes.next().1 == .tokenDead(since: nil))
        }
    }

    @Test func `keys that are none send nothing`() async throws {
        try await withPushServer { (bench, providers) async throws in
            let keys = String(repeating: "A", count: 87) + "." + String(repeating: "A", count: 22)
            let url = try await providers.subscribe("a", service: "unifiedpush").url
            await bench.send(1, to: device(Providers.Subscription(url: url, keys: keys)))
            #expect(try await bench.outcomes.next().1 == .noSuitableToken)
            #expect(await providers.records.isEmpty)
        }
    }
}

/// The sending to hosts that phones choose, with a look-up that the test controls.
private actor HostBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let results = Mailbox<String>()
    private var hosts: ChosenHosts?
    private(set) var lookUps = 0
    private let authority: PEM

    init(_ loop: EventLoop, _ authority: PEM) {
        self.loop = loop
        self.authority = authority
    }

    /// Starts the sender. Each look-up takes the next of the given lists of addresses; the last list stays.
    func start(_ answers: [[String]], own: [Endpoint] = []) {
        let hosts = ChosenHosts(requests: 4, source: nil, on: loop)
        hosts.ownEndpoints = { own }
        hosts.resolve = { [weak self] _, done in
            guard let addresses = self?.assumeIsolated({ $0.lookedUp(answers) }) else { return }
            done(.success(addresses))
        }
        self.hosts = hosts
    }

    private func lookedUp(_ answers: [[String]]) -> [IPAddress] {
        let list = answers[min(lookUps, answers.count - 1)]
        lookUps += 1
        return list.compactMap { IPAddress($0) }
    }

    func send(_ url: String, isPrivate: Bool = false, timeout: Duration = .seconds(30)) {
        var request = HTTPClientRequest(method: "POST", url: url, body: [1])
        request.route.authority = authority
        hosts?.send(request, until: loop.now + timeout, isPrivate: isPrivate) { [results] result in
            switch result {
            case .success(let response): results.put("\(response.status)")
            case .failure(.refused(.noAddress)): results.put("no address")
            case .failure(.refused(.notPublic)): results.put("not public")
            case .failure(.refused(.own)): results.put("own")
            case .failure(.http(let error)): results.put("\(error.code)")
            }
        }
    }

    func close() {
        hosts?.close()
        hosts = nil
    }
}

@Suite("Addresses of push servers that phones choose (T46)", .timeLimit(.minutes(10)))
struct ChosenHostsTests {
    private func with(
        _ replies: FakeProvider.Reply..., body: (HostBench, FakeProvider, Int) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let certificate = try SelfSignedCertificate(hosts: ["up.lan"])
            let context = try TLSContext.server(
                certificate: .bytes(certificate.certificate), key: .bytes(certificate.key))
            let server = FakeProvider(loop) { _, number in replies[min(number, replies.count - 1)] }
            let url = try await server.listen(tls: context)
            let port = try #require(url.split(separator: ":").last.flatMap { Int($0) })
            let bench = HostBench(loop, .bytes(certificate.certificate))
            try await body(bench, server, port)
            await bench.close()
            await server.close()
        }
    }

    @Test(arguments: [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "192.0.2.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "255.255.255.255", "::1", "::", "::ffff:10.0.0.1",
        "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "2002:7f00:1::1", "2001::1",
        "fe80::1",
        "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1",
    ])
    func `a name with an inside address gets no connection (T46.2)`(address: String) async throws {
        try await with(.answer(201)) { bench, server, port in
            for list in [[address], ["8.8.8.8", address]] {
                await bench.start([list])
                await bench.send("https://up.example:\(port)/x")
                try await bench.results.expect("not public")
            }
            #expect(await server.connectionCount == 0)
        }
    }

    @Test func `the connection goes to the address that was checked, without a second look-up (T46.3)`() async throws {
        try await with(.answer(201)) { bench, server, port in
            // The second look-up would give another address.
            await bench.start([["127.0.0.1"], ["127.0.0.99"]])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("201")
            #expect(await bench.lookUps == 1)
            #expect(try await server.requests.next().headers["host"] == "up.lan:\(port)")
        }
        try await with(.answer(201)) { bench, server, port in
            await bench.start([["8.8.8.8", "127.0.0.1"], ["127.0.0.1"]])
            for _ in 1...2 {
                await bench.send("https://up.lan:\(port)/x")
                try await bench.results.expect("not public")
            }
            #expect(await server.connectionCount == 0)
        }
    }

    @Test func `not even a private host leads to our own listeners (T46.2)`() async throws {
        try await with(.answer(201)) { bench, server, port in
            await bench.start([["127.0.0.1"]], own: [Endpoint(.anyV4, UInt16(port))])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("own")
            await bench.start([["0.0.0.0"]])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("not public")
            #expect(await server.connectionCount == 0)
        }
    }

    @Test func `the certificate must be the name's (T46.4)`() async throws {
        try await with(.answer(201)) { bench, server, port in
            await bench.start([["127.0.0.1"]])
            await bench.send("https://other.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("tls")
            #expect(await server.requestCount() == 0)
        }
    }

    @Test func `no redirect is followed (T46.4)`() async throws {
        let inside = "location: http://127.0.0.1:1/\r\n"
        try await with(.answer(307, headers: inside)) { bench, server, port in
            await bench.start([["127.0.0.1"]])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("307")
            #expect(await server.requestCount() == 1)
        }
    }

    @Test func `an endless or silent answer ends, and the status of a long one counts (T46.4)`() async throws {
        let head = "HTTP/1.1 201 Created\r\nContent-Length: 10000000\r\n\r\n"
        try await with(
            .bytes(head + String(repeating: "x", count: 100_000)), .bytes("HTTP/1.1 201 Created\r\nX: "), .silence
        ) { bench, _, port in
            await bench.start([["127.0.0.1"]])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("201")
            for _ in 1...2 {
                await bench.send("https://up.lan:\(port)/x", isPrivate: true, timeout: .milliseconds(300))
                try await bench.results.expect("timeout")
            }
        }
    }

    @Test func `a dead address is left for the next one`() async throws {
        try await with(.answer(201)) { bench, _, port in
            // Nobody listens at the first address.
            await bench.start([["127.0.0.99", "127.0.0.1"]])
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("connect")
            await bench.send("https://up.lan:\(port)/x", isPrivate: true)
            try await bench.results.expect("201")
        }
    }
}
