import Bytes
import LoopTesting
import ProviderTesting
import PushDelivery
import Reactor
import Settings
import Testing

private let phone = String(repeating: "0a", count: 32)

@Suite("Pushes through an HTTP proxy", .timeLimit(.minutes(10)))
struct PushProxyTests {
    /// Runs a test with all providers behind a proxy, which `change` configures.
    private func with(
        _ behaviour: FakeProxy.Behaviour, changing change: (inout PushSettings, PushProxy) -> Void,
        _ body: (PushBench, FakeProxy, Providers) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let proxy = FakeProxy(loop, behaviour)
            let url = "http://user:hidden@127.0.0.1:\(try await proxy.listen())"
            let setting = PushProxy.http(try PushProxy.Address(url))
            try await withAllProviders(changing: { settings, _ in change(&settings, setting) }) {
                (bench, providers) async throws in
                try await body(bench, proxy, providers)
            }
            await proxy.close()
        }
    }

    @Test func `all providers and the token service are reached through the general one`() async throws {
        try await with(.leads, changing: { $0.proxy = $1 }) { (bench, proxy, providers) async throws in
            let browser = try await providers.subscribe("s1")
            await bench.send(1, to: token(.apns, phone))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await proxy.requestCount == 1)
            await bench.send(2, to: token(.fcm, "t:APA91b"))
            #expect(try await bench.outcomes.next().1.isAccepted)
            // Pushes to Google need two tunnels, one to the token service and one to the push service.
            #expect(await proxy.requestCount == 3)
            await bench.send(
                3,
                to: PushToken(
                    provider: .webPush, param: ByteString(browser.keys), prid: ByteString(browser.url)))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await proxy.requestCount == 4)
            #expect(await providers.records.count == 3)
            for _ in 1...4 {
                let head = try await proxy.requests.next()
                // The expected credentials are the base64 of `user:hidden`.
                #expect(head.contains("\r\nProxy-Authorization: Basic dXNlcjpoaWRkZW4=\r\n"), "\(head)")
                #expect(!head.contains("\r\nauthorization"), "\(head)")
            }
        }
    }

    @Test func `one provider has its own, another none`() async throws {
        try await with(
            .leads,
            changing: { settings, proxy in
                settings.apns.proxy = proxy
                settings.fcm.proxy = PushProxy.none
            }
        ) { (bench, proxy, _) async throws in
            await bench.send(1, to: token(.apns, phone))
            await bench.send(2, to: token(.fcm, "t:APA91b"))
            for _ in 1...2 { #expect(try await bench.outcomes.next().1.isAccepted) }
            #expect(await proxy.requestCount == 1)
        }
        try await with(
            .answers("HTTP/1.1 502 X\r\n\r\n"),
            changing: { settings, proxy in
                settings.proxy = proxy
                settings.apns.proxy = PushProxy.none
            }
        ) { (bench, proxy, _) async throws in
            await bench.send(1, to: token(.apns, phone))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await proxy.requestCount == 0)
        }
    }

    @Test func `a wrong password ends the push at once, and operators read whose fault it is`() async throws {
        try await with(.wants("other"), changing: { $0.proxy = $1 }) { (bench, _, _) async throws in
            await bench.send(1, to: token(.apns, phone))
            guard case .noConnection(let words) = try await bench.outcomes.next().1 else {
                return #expect(Bool(false), "the proxy's refusal is neither the provider's nor the token's")
            }
            #expect(words.contains("refuses our login (407)"), "\(words)")
            #expect(!words.contains("hidden"))
            let report = await bench.report("apns")
            #expect(report.refusal == words)
            #expect(report.credentialsRefused == 0)
            // A push also fails if the proxy blocks Google's token service.
            await bench.send(2, to: token(.fcm, "t:APA91b"))
            guard case .noConnection(let google) = try await bench.outcomes.next().1 else {
                return #expect(Bool(false), "no access token is no wrong key")
            }
            #expect(google.hasPrefix("the token service ") && google.contains("(407)"), "\(google)")
        }
    }

    @Test func `a proxy that fails for a while is tried again, and the push arrives`() async throws {
        try await with(.answers("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"), changing: { $0.proxy = $1 }) {
            (bench, proxy, _) async throws in
            await bench.send(1, to: token(.apns, phone))
            _ = try await proxy.requests.next()
            await proxy.behave(.leads)
            #expect(try await bench.outcomes.next().1.isAccepted)
        }
    }
}
