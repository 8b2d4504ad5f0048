package import Addressing
import Reactor
import Resolver

/// Finds the addresses of servers for HTTP/2. An address as host needs no look-up; for names, a resolver is created on
/// demand. For HTTP/1.1, libcurl resolves names itself.
package final class HostNames {
    private let loop: EventLoop
    private var resolver: DNSResolver?

    init(on loop: EventLoop) { self.loop = loop }

    /// Looks up the addresses of a server. The completion is called once, on the loop, and possibly before this
    /// function returns.
    package func resolve(
        _ target: RequestTarget, completion: @escaping (Result<[Endpoint], HTTPClientError>) -> Void
    ) {
        if let address = IPAddress(target.host) { return completion(.success([Endpoint(address, target.port)])) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else {
            return completion(.failure(HTTPClientError(.resolve, detail: "no resolver")))
        }
        // If a query has a port, the resolver asks only for addresses, not for NAPTR and SRV records.
        let query = ServerQuery(host: target.host, port: target.port, transport: .tls)
        resolver.resolve(query) { result in
            switch result {
            case .success(let candidates): completion(.success(candidates.map(\.endpoint)))
            case .failure(let error): completion(.failure(HTTPClientError(.resolve, detail: "\(error)")))
            }
        }
    }
}
