package import Addressing
import Reactor
import Resolver

/// The addresses of servers: numeric ones immediately, others by a resolver, which is created on demand. libcurl
/// resolves names itself.
package final class HostNames {
    private let loop: EventLoop
    private var resolver: DNSResolver?

    init(on loop: EventLoop) { self.loop = loop }

    /// Looks up the addresses of a server. The completion is called once, on the loop, perhaps from within this call.
    package func resolve(
        _ target: RequestTarget, completion: @escaping (Result<[Endpoint], HTTPClientError>) -> Void
    ) {
        if let address = IPAddress(target.host) { return completion(.success([Endpoint(address, target.port)])) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else {
            return completion(.failure(HTTPClientError(.resolve, detail: "no resolver")))
        }
        // A query with a port asks only for addresses, not for NAPTR and SRV.
        let query = ServerQuery(host: target.host, port: target.port, transport: .tls)
        resolver.resolve(query) { result in
            switch result {
            case .success(let candidates): completion(.success(candidates.map(\.endpoint)))
            case .failure(let error): completion(.failure(HTTPClientError(.resolve, detail: "\(error)")))
            }
        }
    }
}
