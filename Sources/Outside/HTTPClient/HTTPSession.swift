package import Addressing
package import Reactor

/// Sends HTTP requests from one loop, and keeps connections open for later requests of the same group.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread, unless a method allows
///   any thread.
package final class HTTPSession: @unchecked Sendable {
    /// The limits for each group of requests.
    package struct Limits: Hashable, Sendable {
        package var connections = 64
        package var connectionsPerHost = 8
        /// The maximum number of simultaneous HTTP/2 requests on one connection, besides the server's own limit.
        package var streams = 1000
        /// The maximum number of simultaneous requests of a group; further requests fail immediately.
        package var requests = 10_000
        /// The maximum number of request groups. Above the maximum, the requests of all further groups share one group.
        package var groups = 256
        /// How many seconds a connection without requests stays open. The default is long, because push providers ask
        /// their clients to keep connections open.
        package var idleSeconds = 3600
        /// How long an HTTP/2 connection without requests can be silent before the client sends a PING.
        package var pingInterval: Duration = .seconds(60)
        /// How long an HTTP/2 connection with waiting requests may be silent before a PING is sent. The waiting time
        /// doubles with each PING, up to ``pingInterval``.
        package var answerPatience: Duration = .seconds(1)
        /// How long the client waits for the answer to a PING. If the answer to a PING is late, the daemon considers
        /// the connection unresponsive, and sends requests over another connection.
        package var pingPatience: Duration = .seconds(1)
        /// How long an unresponsive connection may be silent before it is closed.
        package var sickPatience: Duration = .seconds(5)
        /// The first pause after a failed attempt to open a connection for which no request waits. With each failure to
        /// connect, the pause doubles up to the longest pause. A connection that lasted at least as long as the longest
        /// pause is replaced immediately after its end.
        package var firstWarmPause: Duration = .seconds(1)
        package var longestWarmPause: Duration = .seconds(60)
        /// The source address of connections to servers of the same address family; `nil` to let the kernel choose.
        package var source: IPAddress?

        package init() {}
    }

    package typealias Completion = (Result<HTTPClientResponse, HTTPClientError>) -> Void

    package let loop: EventLoop
    private let limits: Limits
    private let names: HostNames
    private let transports: [any HTTPTransport.Type]
    private var groups: [String: RequestGroup] = [:]
    private var recent: (name: String, group: RequestGroup)?

    /// Creates a session for HTTP requests. The session gives each request to the first of the `transports` that
    /// accepts the request.
    package init(on loop: EventLoop, limits: Limits = Limits(), over transports: [any HTTPTransport.Type]) {
        self.loop = loop
        self.limits = limits
        self.transports = transports
        names = HostNames(on: loop)
    }

    deinit {
        // libcurl's handles are freed on the loop's thread, because the loop may be using libcurl.
        let remains = Remains(groups: Array(groups.values))
        loop.dispose { remains.free() }
    }

    /// Keeps a released session's groups until the loop's thread frees them.
    ///
    /// - The type is `@unchecked Sendable`, because it moves to the loop and is used once.
    private final class Remains: @unchecked Sendable {
        private var groups: [RequestGroup]

        init(groups: [RequestGroup]) { self.groups = groups }

        func free() {
            for group in groups { group.close(HTTPClientError(.cancelled)) }
            groups = []
        }
    }

    /// Sends a request. The request's completion runs once, on the loop, and never before `send` or
    /// ``HTTPExchange/cancel()`` has returned.
    @discardableResult
    package func send(_ request: HTTPClientRequest, completion: @escaping Completion) -> HTTPExchange {
        loop.checkThread()
        let exchange = HTTPExchange(request, loop: loop, completion)
        do throws(HTTPClientError) {
            try group(of: request).send(exchange)
        } catch {
            exchange.finishLater(error)
        }
        return exchange
    }

    /// Opens a connection (`https` with HTTP/2) for later requests like `request`, which itself is not sent. The
    /// session replaces a lost connection until ``close()`` is called. With an open connection, the first request need
    /// not wait for a TLS handshake.
    package func keepWarm(_ request: HTTPClientRequest) {
        loop.checkThread()
        try? group(of: request).keepWarm(request)
    }

    /// Ends all requests with the error `cancelled`, and closes all connections.
    package func close() {
        let groups = groups
        self.groups = [:]
        recent = nil
        for group in groups.values { group.close(HTTPClientError(.cancelled)) }
    }

    private func group(of request: HTTPClientRequest) throws(HTTPClientError) -> RequestGroup {
        guard request.isWellFormed else {
            throw HTTPClientError(.invalidRequest, detail: "malformed method, URL or header")
        }
        if let recent, request.isOf(recent.name) { return recent.group }
        let wanted = request.route.group
        let name = groups.count < limits.groups || groups[wanted] != nil ? wanted : ""
        let group =
            if let known = groups[name] { known } else {
                try RequestGroup(on: loop, limits: limits, names: names, transports)
            }
        groups[name] = group
        recent = (name, group)
        return group
    }
}
