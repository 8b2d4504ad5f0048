package import Addressing
import Bytes
import ProxyCore
package import ProxyPolicy
package import Reactor
import Resolver
package import Routing

/// Looks up the addresses of next hops (RFC 3263); an address is omitted if this daemon does not use its transport.
package final class HopResolver {
    private let resolver: DNSResolver
    private let spoken: Set<Transport>
    private let tls: TLSSetup

    /// Creates a resolver. The parameter `spoken` has the transports of the daemon's listeners. If `servers` is `nil`,
    /// the resolver asks the system's name servers.
    package init(
        loop: EventLoop, spoken: Set<Transport>, tls: TLSSetup = TLSSetup(), servers: [Endpoint]? = nil
    ) throws(StartError) {
        self.spoken = spoken.filter { !$0.isWebSocket }
        self.tls = tls
        do {
            resolver = try DNSResolver(on: loop, servers: servers)
        } catch {
            throw StartError("cannot create a resolver: \(error)")
        }
    }

    /// Looks up the addresses of a next hop, in the order in which the engine tries them. The list of addresses is
    /// empty if the name has no address, or no name server answers.
    ///
    /// The loop calls `done` once. For addresses that need no name server, `done` is called before ``resolve(_:_:)``
    /// returns.
    package func resolve(_ hop: NextHop, _ done: @escaping ([ResolvedHop]) -> Void) {
        // For a hop without transport, DNS chooses among all transports. Addresses for transports that the daemon does
        // not use are removed later.
        let transport = hop.transport ?? (hop.isSecure ? .tls : nil)
        let query = ServerQuery(
            host: hop.host.string, port: hop.port, transport: transport, isSecure: hop.isSecure)
        let (spoken, tls) = (spoken, tls)
        resolver.resolve(query) { outcome in
            let candidates = (try? outcome.get()) ?? []
            done(
                candidates.compactMap { candidate in
                    guard spoken.contains(candidate.transport) else { return nil }
                    let server = candidate.transport.isSecure ? tls.number(of: query.host) : ServerNumber.none
                    return server.map {
                        ResolvedHop(transport: candidate.transport, endpoint: candidate.endpoint, server: $0)
                    }
                })
        }
    }
}
