import Bytes
import Crypto
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Settings
import Telemetry
import Testing
import Timekeeping

private func acrobits(_ prid: String = "T2sx") -> PushToken {
    PushToken(provider: .acrobits, param: ByteString("app:AA:BB"), prid: ByteString(prid))
}

private func gateway(_ prid: String = "tok") -> PushToken {
    PushToken(provider: .http, param: ByteString("gateway"), prid: ByteString(prid))
}

private func gatewaySettings(_ url: String, _ keys: String = "") throws -> HTTPPushSettings {
    let yaml = """
        enabled: true
        apps:
          gateway:
            url: "\(url)/hook/phones?t={{token}}"
            headers: ["x-push: {{push-id}}"]
            body: '{"token":"{{token}}","type":"{{type}}","from":"{{caller}}","at":"{{date}}"}'
            \(keys)
        """
    return try HTTPPushSettings(yaml: Array(yaml.utf8), file: "http.yaml")
}

@Suite("Pushes through Acrobits' push server, over TLS", .timeLimit(.minutes(10)))
struct AcrobitsServiceTests {
    @Test func `it takes calls and lists of missed calls`() async throws {
        try await withAllProviders { (bench, providers) async throws in
            await bench.send(1, to: acrobits("T2sx:calls&T3Ro:other"))
            await bench.send(2, to: acrobits("T2sx:calls&T3Ro:other"), .missedCall)
            for _ in 1...2 { #expect(try await bench.outcomes.next().1 == .accepted(nil)) }
            let records = await providers.records
            let calls = try #require(records.first { $0.type == "NotifyIncomingCall" })
            #expect(calls.token == "T2sx")
            #expect(try JSONValue(Array(calls.body.utf8))["Id"]?.string == "a84b4c76e66710")
            #expect(records.first { $0.type == "NotifyGenericTextMessage" }?.token == "T3Ro")
            #expect(await bench.report("acrobits").sent == 2)
        }
    }

    @Test(arguments: [
        (#"{"status":404}"#, PushOutcome.tokenDead(since: nil)),
        (#"{"status":400,"reason":"Selector is unknown"}"#, .payloadRefused("Selector is unknown")),
        (#"{"status":500,"times":1}"#, .accepted(nil)), (#"{"status":503,"times":1}"#, .accepted(nil)),
        (#"{"status":403,"reason":"no"}"#, .credentialsRefused("no")),
    ])
    func `each error has its consequence`(plan: String, expected: PushOutcome) async throws {
        try await withAllProviders(plans: ["T2sx": plan]) { (bench, _) async throws in
            await bench.send(1, to: acrobits())
            #expect(try await bench.outcomes.next().1 == expected)
        }
    }
}

@Suite("Pushes to servers of the operator's own, over TLS", .timeLimit(.minutes(10)))
struct GatewayServiceTests {
    @Test func `they get the text of the template, signed with both secrets`() async throws {
        for secret in ["new", "old"] {
            try await withAllProviders(changing: { settings, url in
                settings.http = try gatewaySettings(url, "secret: new\n    previous-secret: old")
            }) { (bench, providers) async throws in
                await providers.checkSignatures(of: [secret])
                await bench.send(1, to: gateway("a/b"))
                #expect(try await bench.outcomes.next().1 == .accepted(nil))
                let record = try #require(await providers.records.first)
                #expect(record.line == "POST /hook/phones?t=a%2Fb")
                #expect(record.body == #"{"token":"a/b","type":"invite","from":"sip:103@example.net","at":1623753691}"#)
                #expect(record.headers["x-push"]?.count == 36)
                #expect(record.headers["sippushd-signature"]?.split(separator: ",").count == 3)
                #expect(await bench.report("http/gateway").sent == 1)
            }
        }
    }

    @Test func `a receiver with another secret refuses the push, and without a secret nothing is signed`() async throws
    {
        try await withAllProviders(changing: { settings, url in
            settings.http = try gatewaySettings(url, "secret: new")
        }) { (bench, providers) async throws in
            await providers.checkSignatures(of: ["other"])
            await bench.send(1, to: gateway())
            #expect(try await bench.outcomes.next().1 == .credentialsRefused("status 401"))
        }
        try await withAllProviders(changing: { settings, url in
            settings.http = try gatewaySettings(url)
        }) { (bench, providers) async throws in
            await bench.send(1, to: gateway())
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await providers.records.first?.headers["sippushd-signature"] == nil)
        }
    }

    @Test func `each try is the same push`() async throws {
        try await withAllProviders(
            plans: ["tok": #"{"status":503,"times":1}"#],
            changing: { settings, url in settings.http = try gatewaySettings(url) }
        ) { (bench, providers) async throws in
            await bench.send(1, to: gateway())
            #expect(try await bench.outcomes.next().1.isAccepted)
            let records = await providers.records
            #expect(records.count == 2)
            #expect(Set(records.map { $0.headers["x-push"] }).count == 1)
        }
    }

    @Test func `a redirection is not followed`() async throws {
        try await withLoop { loop in
            let provider = FakeProvider(loop) { _, _ in
                .answer(307, headers: "location: http://127.0.0.1:1/\r\n")
            }
            let url = try await provider.listen()
            try await withFolder { folder in
                var settings = try folder.settings(url)
                settings.http = try gatewaySettings(url, "method: PUT")
                let bench = PushBench(loop)
                try await bench.start(settings)
                await bench.send(1, to: gateway())
                #expect(try await bench.outcomes.next().1 == .payloadRefused("status 307"))
                #expect(await provider.requestCount() == 1)
                await bench.close()
            }
            await provider.close()
        }
    }

    @Test func `a missing path costs no contact before a push was accepted, and does afterwards`() async throws {
        try await withLoop { loop in
            let provider = FakeProvider(loop) { request, _ in .answer(request.path.hasSuffix("=gone") ? 404 : 204) }
            let url = try await provider.listen()
            try await withFolder { folder in
                var settings = try folder.settings(url)
                settings.http = try gatewaySettings(url)
                let bench = PushBench(loop)
                try await bench.start(settings)
                await bench.send(1, to: gateway("gone"))
                guard case .credentialsRefused = try await bench.outcomes.next().1 else { return #expect(Bool(false)) }
                await bench.send(2, to: gateway("here"))
                #expect(try await bench.outcomes.next().1.isAccepted)
                await bench.send(3, to: gateway("gone"))
                #expect(try await bench.outcomes.next().1 == .tokenDead(since: nil))
                await bench.close()
            }
            await provider.close()
        }
    }

    @Test func `a device of an app that is not there is not pushed`() async throws {
        try await withAllProviders { (bench, _) async throws in
            await bench.send(1, to: gateway())
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
        }
    }
}
