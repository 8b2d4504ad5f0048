import Addressing
import HTTP1Connections
import HTTP2Connections
import HTTPClient
import Reactor
import Resolver
import Timekeeping

/// Sends pushes to push servers that phones have chosen (T46).
///
/// ``ChosenHosts`` resolves the name of the server itself, checks all addresses, and connects to a checked address. It
/// follows no redirects and uses no proxy. Its connections, look-ups and limits are separate from those of providers.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class ChosenHosts: @unchecked Sendable {
    /// A function that looks up all addresses of a host name, and calls back once, on the event loop.
    typealias Resolve = (String, @escaping (Result<[IPAddress], HTTPClientError>) -> Void) -> Void

    /// The reason why a request got no answer.
    enum Failure: Error {
        /// The daemon may not connect to the host.
        case refused(DestinationGuard.Refusal)
        case http(HTTPClientError)
    }

    typealias Completion = (Result<HTTPClientResponse, Failure>) -> Void

    /// The daemon's own listeners, to which no push is sent.
    var ownEndpoints: () -> [Endpoint] = { [] }
    /// Replaces the look-up in DNS, for tests.
    var resolve: Resolve?

    private let loop: EventLoop
    private let http: HTTPSession
    private let source: IPAddress?
    private var resolver: DNSResolver?
    /// The requests that wait for the addresses of a host, by the name of the host.
    private var lookUps: [String: [(Result<[IPAddress], HTTPClientError>) -> Void]] = [:]
    /// How many connections to a host with several addresses have failed in a row, so that the next request uses the
    /// next address.
    private var failures: [String: Int] = [:]

    /// The maximum number of connections to one host.
    private static let connectionLimit = 4
    /// The number of groups of connections: one for each host that the dispatcher remembers.
    private static let groupLimit = 512
    private static let idleSeconds = 60
    /// The maximum size in bytes of an answer's body. The body has no use, but an answer of ntfy repeats the push.
    private static let answerLimit = 8 << 10
    private static let failureLimit = 256

    /// - Parameters:
    ///   - requests: the maximum number of simultaneous requests to one host.
    ///   - source: the source address of connections; `nil` if the kernel chooses the address.
    ///   - loop: the shard's loop.
    init(requests: Int, source: IPAddress?, on loop: EventLoop) {
        self.loop = loop
        self.source = source
        var limits = HTTPSession.Limits()
        limits.connections = Self.connectionLimit
        limits.connectionsPerHost = Self.connectionLimit
        // A request may begin before the end of the request that it follows has been noted.
        limits.requests = requests + 2
        limits.groups = Self.groupLimit
        limits.idleSeconds = Self.idleSeconds
        limits.source = source
        http = HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
    }

    func close() {
        http.close()
        resolver?.close()
        lookUps = [:]
    }

    /// Sends a request to a host that a phone has chosen. If `isPrivate` is true, the operator has named the host, so it may
    /// have private addresses. The completion is called once, on the loop, and possibly before `send` returns.
    func send(
        _ request: HTTPClientRequest, until end: Instant, isPrivate: Bool, completion: @escaping Completion
    ) {
        guard let target = RequestTarget(request.url), target.isSecure, !target.hasUser else {
            return completion(.failure(.http(HTTPClientError(.invalidRequest))))
        }
        if let address = IPAddress(target.host) {
            return send(request, to: target, at: [address], until: end, isPrivate: isPrivate, completion)
        }
        lookUp(target.host) { [weak self] result in
            switch result {
            case .success(let addresses):
                self?.send(request, to: target, at: addresses, until: end, isPrivate: isPrivate, completion)
            case .failure(let error): completion(.failure(.http(error)))
            }
        }
    }

    private func send(
        _ request: HTTPClientRequest, to target: RequestTarget, at addresses: [IPAddress], until end: Instant,
        isPrivate: Bool, _ completion: @escaping Completion
    ) {
        let checked: [IPAddress]
        do throws(DestinationGuard.Refusal) {
            checked = try DestinationGuard(isPrivate ? .all : .publicElsewhere)
                .check(addresses, port: target.port, own: ownEndpoints())
        } catch {
            return completion(.failure(.refused(error)))
        }
        let usable = checked.filter { $0.isV4 == (source ?? $0).isV4 }
        let timeout = end - loop.now
        guard !usable.isEmpty, timeout > .zero else {
            let error = HTTPClientError(usable.isEmpty ? .resolve : .timeout, detail: "no address")
            return completion(.failure(.http(error)))
        }
        var request = request
        request.route.address = usable[failures[target.host, default: 0] % usable.count]
        request.timeout = timeout
        request.connectTimeout = timeout
        request.responseLimit = Self.answerLimit
        request.dropsLongBody = true
        http.send(request) { [weak self] result in
            self?.note(result, at: target.host, hasOthers: usable.count > 1)
            completion(result.mapError { .http($0) })
        }
    }

    /// Remembers whether the connection to the host failed, if the host has other addresses.
    private func note(_ result: Result<HTTPClientResponse, HTTPClientError>, at host: String, hasOthers: Bool) {
        switch result {
        case .success: failures[host] = nil
        case .failure(let error):
            guard hasOthers, error.code == .connect || error.code == .timeout else { return }
            if failures.count >= Self.failureLimit { failures = [:] }
            failures[host, default: 0] &+= 1
        }
    }

    // MARK: Names

    /// Looks up a host name. Requests to one host share a look-up, so that slow name servers of one host do not take the
    /// look-ups of others.
    private func lookUp(_ host: String, _ done: @escaping (Result<[IPAddress], HTTPClientError>) -> Void) {
        lookUps[host, default: []].append(done)
        guard lookUps[host]?.count == 1 else { return }
        let finish: (Result<[IPAddress], HTTPClientError>) -> Void = { [weak self] result in
            for done in self?.lookUps.removeValue(forKey: host) ?? [] { done(result) }
        }
        if let resolve { return resolve(host, finish) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else { return finish(.failure(HTTPClientError(.resolve, detail: "no resolver"))) }
        // A query with a port asks only for addresses, and not for NAPTR and SRV records.
        resolver.resolve(ServerQuery(host: host, port: 443, transport: .tls)) { result in
            finish(
                result.map { $0.map(\.endpoint.address) }
                    .mapError { HTTPClientError(.resolve, detail: $0.description) })
        }
    }
}
