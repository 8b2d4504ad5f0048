import Reactor
import Timekeeping

/// The requests of one group: they share connections, and limits on them.
final class RequestGroup {
    private let loop: EventLoop
    private let limits: HTTPSession.Limits
    private let names: HostNames
    private var curl: ConnectionGroup?
    private var origins: [HTTP2Origin.Key: HTTP2Origin] = [:]
    /// Where the last request went: most likely the next one goes there too.
    private var recent: HTTP2Origin?

    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) {
        self.loop = loop
        self.limits = limits
        self.names = names
    }

    var activeCount: Int { origins.values.reduce(curl?.activeCount ?? 0) { $0 + $1.activeCount } }

    func send(_ exchange: HTTPExchange) {
        guard activeCount < limits.requests else {
            exchange.finishLater(HTTPClientError(.failed, detail: "too many requests under way"))
            return
        }
        if let origin = origin(for: exchange.request), origin.speaksHTTP2 {
            origin.send(exchange)
        } else {
            sendByLibcurl(exchange, exchange.request)
        }
    }

    func keepWarm(_ request: HTTPClientRequest) { origin(for: request)?.keepWarm() }

    /// Ends all requests; their completions are called with the error.
    func close(_ error: HTTPClientError) {
        let origins = origins
        self.origins = [:]
        recent = nil
        for origin in origins.values { origin.close(error) }
        curl?.failAll(error)
        curl = nil
    }

    // MARK: HTTP/2

    private func origin(for request: HTTPClientRequest) -> HTTP2Origin? {
        guard request.version == .http2, request.unixSocketPath == nil else { return nil }
        if let recent, recent.key.fits(request) { return recent }
        guard let key = HTTP2Origin.Key(request) else { return nil }
        if let origin = origins[key] {
            recent = origin
            return origin
        }
        if origins.count >= limits.connections { origins = origins.filter { !$0.value.isForgettable } }
        guard origins.count < limits.connections,
            let origin = HTTP2Origin(
                key, on: loop, limits: limits, names: names, withoutHTTP2: { [weak self] in self?.take($0) })
        else { return nil }
        origins[key] = origin
        recent = origin
        return origin
    }

    // MARK: HTTP/1.1, by libcurl

    /// The server does not speak HTTP/2 after all.
    private func take(_ exchange: HTTPExchange) {
        var request = exchange.request
        request.timeout = max(.milliseconds(1), request.timeout - (loop.now - exchange.started))
        sendByLibcurl(exchange, request)
    }

    private func sendByLibcurl(_ exchange: HTTPExchange, _ request: HTTPClientRequest) {
        if curl == nil { curl = try? ConnectionGroup(on: loop, limits: limits) }
        guard let curl else { return exchange.finishLater(HTTPClientError(.failed, detail: "out of memory")) }
        let easy = curl.start(request) { exchange.finish($0) }
        if let easy {
            exchange.started(easy, in: curl)
        } else {
            exchange.finishLater(HTTPClientError(.invalidRequest, detail: "refused by libcurl"))
        }
    }
}
