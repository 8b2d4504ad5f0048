package import Addressing
import Bytes
package import ProxyCore
package import Reactor
import Resolver

/// Looks up the addresses of next hops (RFC 3263), and leaves out those that are reached by a transport which this
/// daemon does not speak.
package final class HopResolver {
    private let resolver: DNSResolver
    private let spoken: Set<Transport>
    private let tls: TLSSetup

    /// `spoken` are the transports of the daemon's listeners. The system's name servers are asked unless others are
    /// given.
    package init(
        loop: EventLoop, spoken: Set<Transport>, tls: TLSSetup = TLSSetup(), servers: [Endpoint]? = nil
    ) throws(StartError) {
        self.spoken = spoken.filter { !$0.isWebSocket }
        self.tls = tls
        do {
            resolver = try DNSResolver(on: loop, servers: servers)
        } catch {
            throw StartError("no resolver: \(error)")
        }
    }

    /// Gives the addresses in the order in which to try them; none when the name has none, or cannot be looked up now.
    ///
    /// `done` is called once, on the loop; from within this call when nothing has to be asked.
    package func resolve(_ hop: NextHop, _ done: @escaping ([ResolvedHop]) -> Void) {
        // Without a transport here DNS chooses among all; those that are not spoken are left out below.
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
