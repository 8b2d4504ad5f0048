package import Addressing

extension DNSResolver {
    /// Looks up all addresses of a host, without servers of a domain. The list is empty if the look-up fails. The
    /// completion is called once, on the loop, and possibly before ``addresses(of:_:)`` returns.
    package func addresses(of host: String, _ done: @escaping @Sendable ([IPAddress]) -> Void) {
        // A DNS query with a port asks only for addresses, and not for NAPTR and SRV records.
        resolve(ServerQuery(host: host, port: 443, transport: .tls)) { outcome in
            done(((try? outcome.get()) ?? []).map(\.endpoint.address))
        }
    }
}
