import Addressing
import Reactor
import Resolver

/// The addresses of servers: numeric ones at once, others by the resolver, which is made when first needed unless one
/// was given.
final class HostNames {
    private let loop: EventLoop
    private var resolver: DNSResolver?

    init(on loop: EventLoop, _ resolver: DNSResolver?) {
        self.loop = loop
        self.resolver = resolver
    }

    /// The completion is called once, on the loop, perhaps from within.
    func resolve(_ target: RequestTarget, completion: @escaping (Result<[Endpoint], HTTPClientError>) -> Void) {
        if let address = IPAddress(target.host) { return completion(.success([Endpoint(address, target.port)])) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else {
            return completion(.failure(HTTPClientError(.resolve, detail: "no resolver")))
        }
        // With a port, that asks for addresses alone.
        let query = ServerQuery(host: target.host, port: target.port, transport: .tls)
        resolver.resolve(query) { result in
            switch result {
            case .success(let candidates): completion(.success(candidates.map(\.endpoint)))
            case .failure(let error): completion(.failure(HTTPClientError(.resolve, detail: "\(error)")))
            }
        }
    }
}
