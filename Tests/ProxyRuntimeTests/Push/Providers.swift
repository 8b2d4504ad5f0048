import Addressing
import Crypto
import Foundation
import LoopTesting
import PushDelivery
import PushSandbox
import Reactor
import Timekeeping

/// The stand-in for Apple and Google on a loop; it checks requests as they do.
actor Providers {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Gives the URL, whose authority is the certificate.
    func listen(_ certificate: SelfSignedCertificate, plans: [String: String]) throws -> String {
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
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["h2"])
        let endpoint = try server.listen(tls: Endpoint(.loopbackV4, 0), context)
        self.semantics = semantics
        self.server = server
        return "https://\(endpoint)"
    }

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
    try await withFolder { folder in
        try await withLoop { loop in
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
            let providers = Providers(loop)
            var settings = try folder.settings(try await providers.listen(certificate, plans: plans))
            settings.apns.caFile = folder.path + "/ca.pem"
            settings.fcm.caFile = folder.path + "/ca.pem"
            changing(&settings)
            let bench = PushBench(loop)
            try await bench.start(settings)
            try await body(bench, providers)
            await bench.close()
            await providers.close()
        }
    }
}
