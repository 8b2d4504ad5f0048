package import Addressing
package import Crypto
import JSON
package import PushSandbox
package import Reactor
import TestSupport
import Testing
import Timekeeping

/// The push sandbox on a loop, which checks requests as real push providers do.
package actor Providers {
    package struct Subscription: Sendable {
        package let url: String
        /// The subscription's keys in the form of `pn-param`.
        package let keys: String

        package init(url: String, keys: String) {
            self.url = url
            self.keys = keys
        }
    }

    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?
    private var url = ""

    package init(_ loop: EventLoop) { self.loop = loop }

    /// Starts to listen, and returns the URL. The server's certificate is self-signed, and is its own authority. If
    /// `apps` is given, clients must present this certificate.
    package func listen(
        _ certificate: SelfSignedCertificate, at address: IPAddress = .loopbackV4, plans: [String: String] = [:],
        apps: SelfSignedCertificate? = nil, topics: Set<String>? = nil, projects: Set<String>? = nil,
        clockLead: Duration = .zero
    ) throws -> String {
        let key = try ProviderKey(.bytes(Array(TestKeys.rfc7515P256.utf8)), for: .es256)
        let semantics = ProviderSemantics(apnsKey: key) { (SystemClock.moment.date + clockLead).milliseconds }
        semantics.topics = topics
        semantics.projects = projects
        for (token, plan) in plans {
            _ = semantics.answer(
                SandboxRequest(
                    method: "PUT", target: "/sandbox/tokens/\(token)", headers: [:], body: Array(plan.utf8),
                    version: "h2",
                    connection: 0))
        }
        let server = SandboxServer(loop: loop, semantics: semantics, clockLead: clockLead)
        let context = try TLSContext.server(
            certificate: .bytes(certificate.certificate), key: .bytes(certificate.key), protocols: ["h2"],
            clientAuthority: apps.map { .bytes($0.certificate) })
        let endpoint = try server.listen(tls: Endpoint(address, 0), context)
        self.semantics = semantics
        self.server = server
        url = "https://\(endpoint)"
        return url
    }

    /// Creates a web push subscription. The server accepts only pushes that the key `sender` has signed. If `sender` is
    /// `nil`, any key may sign the pushes.
    package func subscribe(_ id: String, sender: String? = nil, service: String = "webpush") throws -> Subscription {
        let vapid = sender.map { #","vapid":"\#($0)""# } ?? ""
        let body = #"{"service":"\#(service)"\#(vapid)}"#
        let answer = semantics?.answer(
            SandboxRequest(
                method: "PUT", target: "/sandbox/subscriptions/\(id)", headers: [:], body: Array(body.utf8),
                version: "h2", connection: 0))
        let members = try JSONValue(answer?.body ?? [])
        let (key, secret) = (try #require(members["p256dh"]?.string), try #require(members["auth"]?.string))
        let path = try #require(members["endpoint"]?.string?.split(separator: "/").suffix(2).joined(separator: "/"))
        return Subscription(url: "\(url)/\(path)", keys: "\(key).\(secret)")
    }

    package func checkSignatures(of secrets: [String]) { semantics?.webhookSecrets = secrets.map { Array($0.utf8) } }

    package var connectionCount: Int { server?.connectionCount ?? 0 }

    package var records: [PushRecord] { semantics?.records ?? [] }
    package var trials: [PushRecord] { semantics?.trials ?? [] }

    package func close() {
        server = nil
        semantics = nil
    }
}
