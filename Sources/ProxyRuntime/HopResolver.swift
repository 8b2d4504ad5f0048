package import Addressing
import Bytes
package import ProxyCore
package import Reactor
import Resolver

/// Looks next hops up (RFC 3263) and offers only what this daemon speaks.
package final class HopResolver {
    private let resolver: DNSResolver
    private let spoken: Set<Transport>

    /// With the system's name servers, or those given.
    package init(loop: EventLoop, spoken: Set<Transport>, servers: [Endpoint]? = nil) throws(StartError) {
        self.spoken = spoken
        do {
            resolver = try DNSResolver(on: loop, servers: servers)
        } catch {
            throw StartError("no resolver: \(error)")
        }
    }

    /// The addresses in the order to try them; none when the name has none, or cannot be looked up now.
    ///
    /// `done` is called once, on the loop; from within this call when nothing has to be asked.
    package func resolve(_ hop: NextHop, _ done: @escaping ([ResolvedHop]) -> Void) {
        // Without a wish, what we cannot speak is not asked for: NAPTR might prefer TLS.
        let transport = hop.transport ?? (hop.isSecure ? .tls : nil)
        let query = ServerQuery(
            host: hop.host.string, port: hop.port, transport: transport, isSecure: hop.isSecure)
        let spoken = spoken
        resolver.resolve(query) { outcome in
            let candidates = (try? outcome.get()) ?? []
            done(
                candidates.filter { spoken.contains($0.transport) }
                    .map { ResolvedHop(transport: $0.transport, endpoint: $0.endpoint) })
        }
    }
}
