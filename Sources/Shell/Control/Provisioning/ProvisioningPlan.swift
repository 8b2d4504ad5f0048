package import Addressing
import Bytes
package import HTTPServices
import ProxyPolicy
package import Registration

/// The values of the settings that links and accounts contain.
package struct ProvisioningPlan: Sendable {
    package var settings = ProvisioningSettings()
    /// The host in `advertise`; `nil` if the setting is not set.
    package var host: String?
    /// The first domain of the daemon.
    package var domain = ""
    /// Whether the HTTP API uses TLS.
    package var usesTLS = false
    /// Returns the addresses of the HTTP API. The closure is called on the event loop's thread.
    package var endpoints: @Sendable () -> [Endpoint] = { [] }
    /// The transports and ports of the SIP listeners.
    package var listeners: [(transport: Transport, port: UInt16)] = []
    /// The digest algorithms that the daemon offers to phones.
    package var algorithms: [DigestAlgorithm] = []
    /// Returns the names of the sources that have users of the domain besides the store.
    package var otherSources: @Sendable (String) -> [String] = { _ in [] }

    package init() {}

    /// The URL with which links begin.
    func url() throws(ServiceProblem) -> ProvisioningURL {
        guard let endpoint = endpoints().first else {
            throw Self.problem(
                "the HTTP API is off: set api.listen, because phones get their accounts from the HTTP API")
        }
        if let text = settings.url {
            guard let url = ProvisioningURL(text) else { throw Self.problem("api.provisioning.url is malformed") }
            return url
        }
        guard usesTLS || endpoint.address.isLoopback || settings.allowsPlainHTTP else {
            throw Self.problem(
                "the HTTP API has no TLS: set api.cert-file and api.key-file, or set api.provisioning.url to the URL of a reverse proxy with TLS"
            )
        }
        let isLocal = !usesTLS && endpoint.address.isLoopback
        let name = isLocal ? "\(endpoint.address)" : host ?? domain
        let place = IPAddress(name).map { $0.isV4 ? "\($0)" : "[\($0)]" } ?? name
        let usual: UInt16 = usesTLS ? 443 : 80
        let text = "\(usesTLS ? "https" : "http")://\(place)\(endpoint.port == usual ? "" : ":\(endpoint.port)")"
        guard let url = ProvisioningURL(text) else {
            throw Self.problem("no URL can be made from advertise and domains: set api.provisioning.url")
        }
        return url
    }

    private static func problem(_ detail: String) -> ServiceProblem {
        ServiceProblem(409, "no link can be made", detail: detail)
    }

    /// The SIP server in the accounts of a domain's users.
    func server(for domain: ByteString) -> NextHop {
        if let server = settings.server { return server }
        let order: [Transport] = [.tls, .tcp, .udp]
        let best = order.lazy.compactMap { wanted in listeners.first { $0.transport == wanted } }.first
        var name = host ?? domain.string
        if let address = IPAddress(name), !address.isV4 { name = "[\(address)]" }
        return NextHop(host: ByteString(name), port: best?.port, transport: best?.transport, isSecure: false)
    }

    /// The algorithms for which apps can use a hash instead of a password.
    var phoneAlgorithms: [DigestAlgorithm] { algorithms.filter { $0 != .sha512_256 } }
}
