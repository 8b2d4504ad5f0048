import Bytes
import Crypto
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import PushSending
import Reactor
import Settings
import Telemetry
import Testing
import Timekeeping

private func device(_ subscription: Providers.Subscription, keyed: Bool = true) -> PushToken {
    PushToken(
        provider: .webPush, param: ByteString(keyed ? subscription.keys : ""), prid: ByteString(subscription.url))
}

@Suite("Web pushes over TLS", .timeLimit(.minutes(10)))
struct WebPushServiceTests {
    @Test func `only the device can read them, and our key signs them`() async throws {
        try await withAllProviders { (bench, providers) async throws in
            let key = try #require(await bench.vapidKey)
            let subscription = try await providers.subscribe("s1", sender: key)
            await bench.send(1, to: device(subscription))
            #expect(try await bench.outcomes.next().1 == .accepted(nil))
            await bench.send(2, to: device(subscription), .missedCall)
            #expect(try await bench.outcomes.next().1 == .accepted(nil))
            let records = await providers.records
            try #require(records.count == 2)
            #expect(records[0].body == #"{"type":"invite","date":1623753691}"#)
            #expect(records[0].headers["urgency"] == "high")
            #expect(records[0].headers["ttl"].flatMap { Int($0) }.map { (20...28).contains($0) } == true)
            #expect(records[1].type == "missed_calls")
            #expect(records[1].headers["urgency"] == "normal")
            #expect(records[1].headers["content-encoding"] == "aes128gcm")
            // The daemon must use one VAPID authorization token for many requests.
            #expect(records[0].credential == records[1].credential)
            #expect(await bench.report("webpush").sent == 2)
        }
    }

    @Test func `without keys, or with invalid ones, a device is woken without payload`() async throws {
        try await withAllProviders { (bench, providers) async throws in
            let subscription = try await providers.subscribe("s1")
            await bench.send(1, to: device(subscription, keyed: false))
            // The key is invalid, because it has the right length but is not a point on the curve.
            let none = String(repeating: "A", count: 87) + "." + String(repeating: "A", count: 22)
            await bench.send(
                2, to: PushToken(provider: .webPush, param: ByteString(none), prid: ByteString(subscription.url)))
            for _ in 1...2 { #expect(try await bench.outcomes.next().1 == .accepted(nil)) }
            let records = await providers.records
            #expect(records.allSatisfy { $0.body.isEmpty && $0.headers["content-encoding"] == nil })
        }
    }

    @Test(arguments: [
        (#"{"status":410}"#, PushOutcome.tokenDead(since: nil)), (#"{"status":404}"#, .tokenDead(since: nil)),
        (#"{"status":413,"reason":"PayloadTooLarge"}"#, .payloadRefused("PayloadTooLarge")),
        (#"{"status":503,"times":1}"#, .accepted(nil)), (#"{"status":429,"times":1}"#, .accepted(nil)),
        (#"{"status":202}"#, .accepted(nil)),
    ])
    func `each error has its consequence`(plan: String, expected: PushOutcome) async throws {
        try await withAllProviders(plans: ["s1": plan]) { (bench, providers) async throws in
            let subscription = try await providers.subscribe("s1")
            await bench.send(1, to: device(subscription))
            #expect(try await bench.outcomes.next().1 == expected)
        }
    }

    @Test func `a subscription for a foreign key refuses the push`() async throws {
        try await withAllProviders { (bench, providers) async throws in
            let other = String(decoding: Base64.url.encode(try P256KeyPair().publicKey), as: UTF8.self)
            await bench.send(1, to: device(try await providers.subscribe("s1", sender: other)))
            guard case .credentialsRefused = try await bench.outcomes.next().1 else { return #expect(Bool(false)) }
        }
    }

    @Test func `a host that is not allowed gets nothing`() async throws {
        try await withAllProviders(changing: { settings, _ in settings.webPush.hosts = WebPushSettings().hosts }) {
            (bench, providers) async throws in
            await bench.send(1, to: device(try await providers.subscribe("s1")))
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
            #expect(await providers.records.isEmpty)
        }
    }

    // MARK: Connections

    @Test func `a silent push service does not delay another`() async throws {
        try await withLoop { loop in
            // The silent server accepts connections, and never sends a byte of TLS.
            let silent = FakeProvider(loop) { _, _ in .silence }
            let authority = try await silent.listen().dropFirst("http://".count)
            try await withAllProviders(
                changing: { settings, url in
                    settings.webPush.limits.requests = 1
                    // The time limit is longer than the test takes, even on a busy machine.
                    settings.requestTimeout = .seconds(60)
                    settings.webPush.hosts = try hosts([String(authority), String(url.dropFirst("https://".count))])
                }
            ) { (bench, providers) async throws in
                let stuck = PushToken(
                    provider: .webPush, param: .empty, prid: ByteString("https://\(authority)/webpush/x"))
                for number in 1...3 { await bench.send(UInt64(number), to: stuck, life: .seconds(60)) }
                await bench.send(4, to: device(try await providers.subscribe("s1")))
                let (id, outcome) = try await bench.outcomes.next()
                #expect(id == PushID(rawValue: 4))
                #expect(outcome.isAccepted)
                let counters = await bench.counters
                #expect(counters[.pushesInFlight] == 1)
                #expect(counters[.pushQueue] == 2)
            }
            await silent.close()
        }
    }

    /// The phones decide how many push services are contacted. Even very many push services must not use much memory,
    /// or delay the pushes to one another.
    @Test func `more push services than connections are all served`() async throws {
        try await withAllProviders(
            changing: { settings, url in
                let closed = (1...200).map { "127.0.0.1:\($0)" }
                settings.webPush.hosts = try hosts(closed + [String(url.dropFirst("https://".count))])
            }
        ) { (bench, providers) async throws in
            for number in 1...200 {
                let nobody = PushToken(
                    provider: .webPush, param: .empty, prid: ByteString("https://127.0.0.1:\(number)/x"))
                await bench.send(UInt64(number), to: nobody, life: .milliseconds(100))
            }
            for _ in 1...200 { #expect(try await bench.outcomes.next().1 == .retry(after: nil)) }
            await bench.send(201, to: device(try await providers.subscribe("s1")))
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 201))
            #expect(outcome.isAccepted)
            #expect(await bench.counters[.pushesInFlight] == 0)
        }
    }

    @Test func `a key that is no key stops the start`() async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                var settings = try folder.settings("http://127.0.0.1:1")
                try settings.addGateways("http://127.0.0.1:1", key: folder.path + "/key.p8")
                settings.webPush.keyFile = settings.fcm.serviceAccountFile
                await #expect(throws: PushSetupError.self) { try await PushBench(loop).start(settings) }
                settings.webPush.keyFile = nil
                await #expect(throws: PushSetupError.self) { try await PushBench(loop).start(settings) }
            }
        }
    }

    private func hosts(_ hosts: [String]) throws -> [WebPushHost] { try hosts.map { try WebPushHost(parsing: $0) } }
}
