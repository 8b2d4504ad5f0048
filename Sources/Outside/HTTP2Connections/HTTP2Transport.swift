package import HTTPClient
package import Reactor

/// Sends requests over HTTP/2, with an ``HTTP2Origin`` for each server.
package final class HTTP2Transport: HTTPTransport {
    private let loop: EventLoop
    private let limits: HTTPSession.Limits
    private let names: HostNames
    private var origins: [HTTP2Origin.Key: HTTP2Origin] = [:]
    /// The server of the previous request, to which the next request most likely goes.
    private var recent: HTTP2Origin?

    package init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) {
        self.loop = loop
        self.limits = limits
        self.names = names
    }

    package func send(_ exchange: HTTPExchange) -> Bool {
        guard let origin = origin(for: exchange.request), origin.speaksHTTP2 else { return false }
        origin.send(exchange)
        return true
    }

    package func takeBack(_ exchange: HTTPExchange) {
        guard let key = HTTP2Origin.Key(exchange.request) else { return }
        origins[key]?.takeBack(exchange)
    }

    package func delay(of exchange: HTTPExchange) -> HTTPClientError? {
        guard exchange.connection == nil, let key = HTTP2Origin.Key(exchange.request) else { return nil }
        return origins[key]?.openingDelay
    }

    package func keepWarm(_ request: HTTPClientRequest) { origin(for: request)?.keepWarm() }

    package func close() -> [HTTPExchange] {
        recent = nil
        return origins.values.flatMap { $0.close() }
    }

    private func origin(for request: HTTPClientRequest) -> HTTP2Origin? {
        guard request.mayUseHTTP2 else { return nil }
        if let recent, recent.fits(request) { return recent }
        guard let key = HTTP2Origin.Key(request) else { return nil }
        if let origin = origins[key] {
            recent = origin
            return origin
        }
        if origins.count >= limits.connections { origins = origins.filter { !$0.value.isForgettable } }
        guard origins.count < limits.connections,
            let origin = HTTP2Origin(key, of: request, on: loop, limits: limits, names: names)
        else { return nil }
        origins[key] = origin
        recent = origin
        return origin
    }
}
