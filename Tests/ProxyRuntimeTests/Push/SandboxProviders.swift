import Addressing
import Crypto
import Foundation
import JSON
import LoopTesting
import PushDelivery
import PushSandbox
import Reactor
import SIPGrammar
import Testing
import Timekeeping

/// The stand-in for push providers on a loop; it checks requests as they do.
actor SandboxProviders {
    struct Subscription: Sendable {
        let url: String
        let keys: String
    }

    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?
    private var url = ""

    init(_ loop: EventLoop) { self.loop = loop }

    /// Gives the URL, whose authority is the certificate.
    func listen(_ certificate: SelfSignedCertificate, plans: [String: String]) throws -> String {
        let key = try ProviderKey(.bytes(Array(TestFolder.appleKey.utf8)), for: .es256)
        semantics = ProviderSemantics(apnsKey: key) { SystemClock.moment.date.milliseconds }
        for (token, plan) in plans { self.plan(plan, for: token) }
        let context = try TLSContext.server(
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["h2"])
        let semantics = try #require(semantics)
        let server = SandboxServer(loop: loop, semantics: semantics)
        let endpoint = try server.listen(tls: Endpoint(.loopbackV4, 0), context)
        self.server = server
        url = "https://\(endpoint)"
        return url
    }

    func plan(_ plan: String, for token: String) { _ = control("PUT", "/sandbox/tokens/\(token)", plan) }

    /// A subscription that takes pushes of one key only, or of any.
    func subscribe(_ id: String, sender: String? = nil) throws -> Subscription {
        let answer = control("PUT", "/sandbox/subscriptions/\(id)", sender.map { #"{"vapid":"\#($0)"}"# } ?? "")
        let members = try JSONValue(answer?.body ?? [])
        let (key, secret) = (try #require(members["p256dh"]?.string), try #require(members["auth"]?.string))
        return Subscription(url: "\(url)/webpush/\(id)", keys: "\(key).\(secret)")
    }

    func checkSignatures(of secrets: [String]) { semantics?.webhookSecrets = secrets.map { Array($0.utf8) } }

    private func control(_ method: String, _ target: String, _ body: String) -> SandboxAnswer? {
        semantics?.answer(
            SandboxRequest(
                method: method, target: target, headers: [:], body: Array(body.utf8), version: "h2", connection: 0))
    }

    var records: [PushRecord] { semantics?.records ?? [] }

    func close() {
        server = nil
        semantics = nil
    }
}

/// Runs a push service against the stand-in, all its requests over TLS.
func withProviders(
    plans: [String: String] = [:], changing change: (inout PushSettings, String) throws -> Void = { _, _ in },
    _ body: (PushBench, SandboxProviders) async throws -> Void
) async throws {
    try await withFolder { folder in
        try await withLoop { loop in
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            let authority = folder.path + "/ca.pem"
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: authority))
            let providers = SandboxProviders(loop)
            let url = try await providers.listen(certificate, plans: plans)
            var settings = try folder.settings(url)
            settings.apns.caFile = authority
            settings.fcm.caFile = authority
            settings.webPush.caFile = authority
            settings.acrobits.caFile = authority
            try change(&settings, url)
            for name in settings.http.apps.keys { settings.http.apps[name]?.caFile = authority }
            let bench = PushBench(loop)
            try await bench.start(settings)
            try await body(bench, providers)
            await bench.close()
            await providers.close()
        }
    }
}
