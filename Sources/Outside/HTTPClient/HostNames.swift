package import Addressing
import Reactor
import Resolver

/// Finds the addresses of HTTP/2 servers from their host names. A host that is an address needs no look-up. For
/// HTTP/1.1, libcurl resolves names itself.
package final class HostNames {
    private let loop: EventLoop
    private var resolver: DNSResolver?

    init(on loop: EventLoop) { self.loop = loop }

    /// Looks up the addresses of a server. The completion is called once, on the loop, possibly before `resolve`
    /// returns.
    package func resolve(
        _ target: RequestTarget, completion: @escaping (Result<[Endpoint], HTTPClientError>) -> Void
    ) {
        if let address = IPAddress(target.host) { return completion(.success([Endpoint(address, target.port)])) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else {
            return completion(.failure(HTTPClientError(.resolve, detail: "no resolver")))
        }
        // With a port in the query, the resolver asks only for addresses, and not for NAPTR and SRV records.
        let query = ServerQuery(host: target.host, port: target.port, transport: .tls)
        resolver.resolve(query) { result in
            switch result {
            case .success(let candidates): completion(.success(candidates.map(\.endpoint)))
            case .failure(let error): completion(.failure(HTTPClientError(.resolve, detail: "\(error)")))
            }
        }
    }
}
