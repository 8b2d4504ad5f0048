import Addressing
import Crypto
import Foundation
import JSON
import LoopTesting
import PushDelivery
import PushSandbox
import Reactor
import Testing
import Timekeeping

/// The stand-in for push providers on a loop; it checks requests as they do.
actor Providers {
    struct Subscription: Sendable {
        let url: String
        /// As `pn-param` has them.
        let keys: String
    }

    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?
    private var url = ""

    init(_ loop: EventLoop) { self.loop = loop }

    /// Gives the URL, whose authority is the certificate. With `apps`, clients must show that certificate.
    func listen(
        _ certificate: SelfSignedCertificate, plans: [String: String] = [:], apps: SelfSignedCertificate? = nil
    ) throws -> String {
        let key = try ProviderKey(.bytes(Array(TestFolder.appleKey.utf8)), for: .es256)
        let semantics = ProviderSemantics(apnsKey: key) { SystemClock.moment.date.milliseconds }
        for (token, plan) in plans {
            _ = semantics.answer(
                SandboxRequest(
                    method: "PUT", target: "/sandbox/tokens/\(token)", headers: [:], body: Array(plan.utf8),
                    version: "h2",
                    connection: 0))
        }
        let server = SandboxServer(loop: loop, semantics: semantics)
        let context = try TLSContext.server(
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["h2"],
            clientAuthority: apps.map { .bytes($0.certificate) })
        let endpoint = try server.listen(tls: Endpoint(.loopbackV4, 0), context)
        self.semantics = semantics
        self.server = server
        url = "https://\(endpoint)"
        return url
    }

    /// A subscription that takes pushes of one key only, or of any.
    func subscribe(_ id: String, sender: String? = nil) throws -> Subscription {
        let body = sender.map { #"{"vapid":"\#($0)"}"# } ?? ""
        let answer = semantics?.answer(
            SandboxRequest(
                method: "PUT", target: "/sandbox/subscriptions/\(id)", headers: [:], body: Array(body.utf8),
                version: "h2", connection: 0))
        let members = try JSONValue(answer?.body ?? [])
        let (key, secret) = (try #require(members["p256dh"]?.string), try #require(members["auth"]?.string))
        return Subscription(url: "\(url)/webpush/\(id)", keys: "\(key).\(secret)")
    }

    func checkSignatures(of secrets: [String]) { semantics?.webhookSecrets = secrets.map { Array($0.utf8) } }

    var connectionCount: Int { server?.connectionCount ?? 0 }

    var records: [PushRecord] { semantics?.records ?? [] }

    func close() {
        server = nil
        semantics = nil
    }
}

func withProviders(
    plans: [String: String] = [:], changing: @Sendable (inout PushSettings) -> Void = { _ in },
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withProviders(plans: plans, settings: { settings, _, _ in changing(&settings) }, body)
}

/// The same with Web Push and Acrobits' mediator switched on, and with the URL for servers of one's own.
func withAllProviders(
    plans: [String: String] = [:], changing: (inout PushSettings, String) throws -> Void = { _, _ in },
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withProviders(
        plans: plans,
        settings: { settings, folder, url in
            try settings.addGateways(url, key: folder.path + "/key.p8")
            try changing(&settings, url)
            settings.webPush.caFile = folder.path + "/ca.pem"
            settings.acrobits.caFile = folder.path + "/ca.pem"
            for name in settings.http.apps.keys { settings.http.apps[name]?.caFile = folder.path + "/ca.pem" }
        }, body)
}

private func withProviders(
    plans: [String: String], settings change: (inout PushSettings, TestFolder, String) throws -> Void,
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withFolder { folder in
        try await withLoop { loop in
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
            let providers = Providers(loop)
            let url = try await providers.listen(certificate, plans: plans)
            var settings = try folder.settings(url)
            settings.apns.caFile = folder.path + "/ca.pem"
            settings.fcm.caFile = folder.path + "/ca.pem"
            try change(&settings, folder, url)
            let bench = PushBench(loop)
            try await bench.start(settings)
            try await body(bench, providers)
            await bench.close()
            await providers.close()
        }
    }
}
