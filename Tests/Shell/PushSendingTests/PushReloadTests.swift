import Bytes
import Crypto
import Foundation
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Reactor
import Settings
import Telemetry
import TestSupport
import Testing
import Timekeeping

private let phone = String(repeating: "0a", count: 32)
private let grant = #"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#

/// Tests that the daemon reads keys and certificates again at SIGHUP, after they were replaced at their paths.
@Suite("Reading the keys and certificates of providers again", .timeLimit(.minutes(10)))
struct PushReloadTests {
    /// Runs a test with a push service, a provider that accepts everything, the service's files, and its log.
    private func with(
        changing change: (inout PushSettings, TestFolder) throws -> Void = { _, _ in },
        _ body: (PushBench, FakeProvider, PushSettings, TestFolder, MemoryLogSink) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let provider = FakeProvider(loop) { request, _ in
                    request.path == "/token" ? .answer(200, grant) : .answer(200, #"{"name":"projects/p/messages/1"}"#)
                }
                var settings = try folder.settings(try await provider.listen())
                try change(&settings, folder)
                let sink = MemoryLogSink()
                let bench = PushBench(loop)
                try await bench.start(
                    settings, log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
                try await body(bench, provider, settings, folder, sink)
                await bench.close()
                await provider.close()
            }
        }
    }

    private func write(_ bytes: [UInt8], _ name: String, in folder: TestFolder) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: folder.path + "/" + name))
    }

    /// Sends a push, and returns the credential of its request to the provider.
    private func credential(
        _ number: UInt64, to token: PushToken, _ bench: PushBench, _ provider: FakeProvider
    ) async throws -> String {
        await bench.send(number, to: token)
        #expect(try await bench.outcomes.next().1.isAccepted)
        while true {
            let request = try await provider.requests.next()
            if request.path != "/token" { return request.headers["authorization"] ?? "" }
        }
    }

    private func isSigned(_ credential: String, by key: [UInt8]) throws -> Bool {
        let parts = credential.dropFirst("bearer ".count).split(separator: ".").map { Array($0.utf8) }
        try #require(parts.count == 3)
        let signature = try #require(Base64.url.decode(parts[2]))
        return try ProviderKey(.bytes(key), for: .es256).isValid(
            signature, for: parts[0] + Array(".".utf8) + parts[1])
    }

    @Test func `Apple's signing key`() async throws {
        try await with { (bench, provider, settings, folder, sink) async throws in
            let first = try await credential(1, to: token(.apns, phone), bench, provider)
            #expect(try isSigned(first, by: Array(TestKeys.rfc7515P256.utf8)))
            // The reload must keep the token, because Apple blocks senders that make tokens too often.
            await bench.reload(settings)
            #expect(try await credential(2, to: token(.apns, phone), bench, provider) == first)
            let other = try SelfSignedCertificate(hosts: ["a"])
            try write(other.key, "key.p8", in: folder)
            await bench.reload(settings)
            let second = try await credential(3, to: token(.apns, phone), bench, provider)
            #expect(try isSigned(second, by: other.key))
            #expect(sink.lines.isEmpty, "\(sink.lines)")
            try write(Array("no key".utf8), "key.p8", in: folder)
            await bench.reload(settings)
            #expect(try await credential(4, to: token(.apns, phone), bench, provider) == second)
            let line = try #require(sink.lines.first)
            #expect(
                line.contains("the key of a push provider was not reloaded, so the old key stays in use")
                    && line.contains("key.p8"),
                "\(line)")
            #expect(sink.lines.count == 1)
        }
    }

    @Test func `Apple's key identifier, from changed settings`() async throws {
        try await with { (bench, provider, settings, _, _) async throws in
            _ = try await credential(1, to: token(.apns, phone), bench, provider)
            var settings = settings
            settings.apns.keyID = "XYZ123DEFG"
            await bench.reload(settings)
            let credential = try await credential(2, to: token(.apns, phone), bench, provider)
            let header = try #require(credential.dropFirst(7).split(separator: ".").first)
            #expect(
                try JSONValue(try #require(Base64.url.decode(Array(header.utf8))))["kid"]?.string == "XYZ123DEFG")
        }
    }

    @Test func `Firebase's service account, but not for another project`() async throws {
        try await with { (bench, provider, settings, folder, sink) async throws in
            func account(_ key: String, _ project: String) throws {
                let account = [
                    "type": "service_account", "project_id": project, "private_key_id": key,
                    "private_key": TestKeys.rsa2048, "client_email": "push@my-project.iam.gserviceaccount.com",
                    "token_uri": "https://oauth2.googleapis.com/token",
                ]
                try write(Array(try JSONSerialization.data(withJSONObject: account)), "account.json", in: folder)
            }
            /// Sends a push, and returns the id of the key in its request to the token service; `nil` if there was no
            /// request.
            func key(_ number: UInt64) async throws -> String? {
                await bench.send(number, to: token(.fcm, "t:APA91b"))
                #expect(try await bench.outcomes.next().1.isAccepted)
                var key: String?
                while true {
                    let request = try await provider.requests.next()
                    guard request.path == "/token" else { return key }
                    let assertion = try #require(request.body.components(separatedBy: "assertion=").last)
                    let header = try #require(assertion.split(separator: ".").first)
                    key = try JSONValue(try #require(Base64.url.decode(Array(header.utf8))))["kid"]?.string
                }
            }
            #expect(try await key(1) == "k1")
            await bench.reload(settings)
            #expect(try await key(2) == nil, "nothing has changed, and the access token is still good")
            try account("k2", "my-project")
            await bench.reload(settings)
            #expect(try await key(3) == "k2")
            #expect(sink.lines.isEmpty)
            try account("k3", "other-project")
            await bench.reload(settings)
            #expect(try await key(4) == nil)
            #expect(sink.lines.last?.contains("the account is for another project") == true, "\(sink.lines)")
            try write(Array("{}".utf8), "account.json", in: folder)
            await bench.reload(settings)
            #expect(try await key(5) == nil)
            #expect(
                sink.lines.count == 2
                    && sink.lines.allSatisfy { $0.contains("key of a push provider was not reloaded") })
        }
    }

    @Test func `a push that waits for the former key's credential gets the new key's`() async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                // The imitated token service answers its second request, and does not answer its first request.
                let provider = FakeProvider(loop) { request, count in
                    request.path != "/token"
                        ? .answer(200, #"{"name":"n"}"#) : count == 0 ? .silence : .answer(200, grant)
                }
                var settings = try folder.settings(try await provider.listen())
                let bench = PushBench(loop)
                try await bench.start(settings)
                await bench.send(1, to: token(.fcm, "t:APA91b"))
                _ = try await provider.requests.next()
                settings.fcm.proxy = PushProxy.none
                try write(
                    Array(
                        try String(contentsOfFile: folder.path + "/account.json", encoding: .utf8)
                            .replacingOccurrences(of: "\"k1\"", with: "\"k2\"").utf8), "account.json", in: folder)
                await bench.reload(settings)
                #expect(try await bench.outcomes.next().1.isAccepted)
                await bench.close()
                await provider.close()
            }
        }
    }

    @Test func `the key of web push`() async throws {
        try await with(
            changing: { settings, folder in
                try settings.addGateways("https://push.example.net", key: folder.path + "/key.p8")
            }
        ) { (bench, _, settings, folder, sink) async throws in
            let first = await bench.vapidKey
            await bench.reload(settings)
            #expect(await bench.vapidKey == first)
            try write(try SelfSignedCertificate(hosts: ["a"]).key, "key.p8", in: folder)
            await bench.reload(settings)
            let second = await bench.vapidKey
            #expect(second != nil && second != first)
            try write([], "key.p8", in: folder)
            await bench.reload(settings)
            #expect(await bench.vapidKey == second)
            #expect(
                sink.lines.contains {
                    $0.contains("key of a push provider was not reloaded") && $0.contains("webpush")
                }, "\(sink.lines)")
        }
    }

    /// Tests a change of the authority that issued the provider's certificate, over HTTP/2.
    @Test func `certificate authorities`() async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let theirs = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                try write(try SelfSignedCertificate(hosts: ["127.0.0.1"]).certificate, "ca.pem", in: folder)
                let providers = Providers(loop)
                var settings = try folder.settings(try await providers.listen(theirs))
                settings.apns.caFile = folder.path + "/ca.pem"
                let sink = MemoryLogSink()
                let bench = PushBench(loop)
                try await bench.start(
                    settings, log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
                await bench.send(1, to: token(.apns, phone))
                #expect(try await !bench.outcomes.next().1.isAccepted)
                try write(theirs.certificate, "ca.pem", in: folder)
                await bench.reload(settings)
                await bench.send(2, to: token(.apns, phone))
                #expect(try await bench.outcomes.next().1.isAccepted)
                try write(Array("broken".utf8), "ca.pem", in: folder)
                await bench.reload(settings)
                #expect(
                    sink.lines.contains {
                        $0.contains("the certificate was not reloaded, so the old certificate stays in use")
                            && $0.contains("ca.pem")
                    }, "\(sink.lines)")
                // New connections still use the old authority; the removal of the proxy makes new connections
                // necessary.
                settings.apns.proxy = PushProxy.none
                await bench.reload(settings)
                await bench.send(3, to: token(.apns, phone))
                #expect(try await bench.outcomes.next().1.isAccepted)
                await bench.close()
                await providers.close()
            }
        }
    }

    @Test(arguments: [true, false])
    func `client certificates, over HTTP/2 and HTTP/1`(isApple: Bool) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let server = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                let ours = try SelfSignedCertificate(hosts: ["daemon"])
                let stranger = try SelfSignedCertificate(hosts: ["daemon"])
                try write(server.certificate, "ca.pem", in: folder)
                func show(_ identity: SelfSignedCertificate) throws {
                    try write(identity.certificate, "cert.pem", in: folder)
                    try write(identity.key, "cert-key.pem", in: folder)
                }
                try show(stranger)
                let context = try TLSContext.server(
                    certificate: .bytes(server.certificate), key: .bytes(server.key), protocols: ["http/1.1"],
                    clientAuthority: .bytes(ours.certificate))
                let provider = FakeProvider(loop) { _, _ in .answer(200) }
                let providers = Providers(loop)
                let url =
                    try await isApple
                    ? providers.listen(server, apps: ours) : provider.listen(tls: context)
                var settings = try folder.settings(url)
                settings.fcm.enabled = false
                if isApple {
                    settings.apns.caFile = folder.path + "/ca.pem"
                    settings.apns.certFile = folder.path + "/cert.pem"
                    settings.apns.certKeyFile = folder.path + "/cert-key.pem"
                    settings.apns.keyFile = nil
                } else {
                    settings.apns.enabled = false
                    settings.http = try PushSettings(
                        yaml: Array(
                            "http: {enabled: true, apps: {g: {url: \"\(url)/x\", body: '{\"a\":\"{{token}}\"}', ca-file: \(folder.path)/ca.pem, cert-file: \(folder.path)/cert.pem, cert-key-file: \(folder.path)/cert-key.pem}}}"
                                .utf8), file: "f"
                    ).http
                }
                let device =
                    isApple
                    ? token(.apns, phone)
                    : PushToken(provider: .http, param: ByteString("g"), prid: ByteString("t"))
                let sink = MemoryLogSink()
                let bench = PushBench(loop)
                try await bench.start(
                    settings, log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
                await bench.send(1, to: device, life: .seconds(1))
                #expect(try await !bench.outcomes.next().1.isAccepted)
                try show(ours)
                await bench.reload(settings)
                // Whether the TLS handshake succeeded, after which the sandbox complains about the missing
                // authorization token.
                func isPastTLS(_ outcome: PushOutcome) -> Bool {
                    isApple ? outcome == .credentialsRefused("MissingProviderToken") : outcome.isAccepted
                }
                await bench.send(2, to: device)
                #expect(isPastTLS(try await bench.outcomes.next().1))
                // The test writes the key of another certificate into the key file.
                try write(stranger.key, "cert-key.pem", in: folder)
                await bench.reload(settings)
                #expect(sink.lines.contains { $0.contains("certificate was not reloaded") }, "\(sink.lines)")
                await bench.send(3, to: device)
                #expect(isPastTLS(try await bench.outcomes.next().1))
                await bench.close()
                await provider.close()
                await providers.close()
            }
        }
    }

    @Test func `a proxy`() async throws {
        try await with { (bench, provider, settings, _, _) async throws in
            _ = try await credential(1, to: token(.apns, phone), bench, provider)
            let proxy = FakeProxy(bench.loop)
            var settings = settings
            settings.proxy = .http(try PushProxy.Address("http://127.0.0.1:\(try await proxy.listen())"))
            await bench.reload(settings)
            _ = try await credential(2, to: token(.apns, phone), bench, provider)
            #expect(await proxy.requestCount == 1)
            settings.apns.proxy = PushProxy.none
            await bench.reload(settings)
            _ = try await credential(3, to: token(.apns, phone), bench, provider)
            #expect(await proxy.requestCount == 1)
            await proxy.close()
        }
    }
}
