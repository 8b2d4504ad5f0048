package import Addressing
package import Reactor

/// Sends HTTP requests from one loop. Connections are kept and shared within the groups that the requests name.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread, except where a method says
///   otherwise.
package final class HTTPSession: @unchecked Sendable {
    /// Limits of each connection group.
    package struct Limits: Hashable, Sendable {
        package var connections = 64
        package var connectionsPerHost = 8
        /// The maximum number of simultaneous HTTP/2 requests on one connection. The server's own limit applies too.
        package var streams = 1000
        /// The maximum number of simultaneous requests. Further requests fail immediately.
        package var requests = 10_000
        /// For HTTP/2: how long an idle connection may be silent before a PING is sent.
        package var pingInterval: Duration = .seconds(60)
        /// For HTTP/2: how long a connection may be silent while requests wait for answers. The time doubles with each
        /// PING, up to ``pingInterval``.
        package var answerPatience: Duration = .seconds(1)
        /// How long to wait for the answer to a PING. After that the connection counts as sick, and requests use
        /// another connection.
        package var pingPatience: Duration = .seconds(1)
        /// How long a sick connection may be silent before it is closed.
        package var sickPatience: Duration = .seconds(5)
        /// The pause between attempts to open a connection before the first request. It doubles from the first to the
        /// longest value. A connection that lasted for the longest pause is replaced immediately.
        package var firstWarmPause: Duration = .seconds(1)
        package var longestWarmPause: Duration = .seconds(60)
        /// The source address of connections to servers of the same address family. With `nil` the kernel chooses.
        package var source: IPAddress?

        package init() {}
    }

    package typealias Completion = (Result<HTTPClientResponse, HTTPClientError>) -> Void

    /// How many seconds a connection without requests is kept. Push providers ask clients to keep connections.
    package static let idleSeconds = 3600

    package let loop: EventLoop
    private let limits: Limits
    private let names: HostNames
    private let transports: [any HTTPTransport.Type]
    private var groups: [String: RequestGroup] = [:]
    private var recent: (name: String, group: RequestGroup)?

    /// The maximum number of groups. Groups come from the settings; beyond the limit, requests share one group.
    private static let groupLimit = 256

    /// Creates a session. Each request uses the first of these transports that accepts it.
    package init(on loop: EventLoop, limits: Limits = Limits(), over transports: [any HTTPTransport.Type]) {
        self.loop = loop
        self.limits = limits
        self.transports = transports
        names = HostNames(on: loop)
    }

    deinit {
        // The handles are freed on the loop, where libcurl may be in use.
        let remains = Remains(groups: Array(groups.values))
        loop.dispose { remains.free() }
    }

    /// The groups of a session that was released.
    ///
    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    private final class Remains: @unchecked Sendable {
        private var groups: [RequestGroup]

        init(groups: [RequestGroup]) { self.groups = groups }

        func free() {
            for group in groups { group.close(HTTPClientError(.cancelled)) }
            groups = []
        }
    }

    /// Sends a request. The completion is called once, on the loop. It is never called before this function or
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

    /// Opens a connection for requests like this one (`https` with HTTP/2), and replaces it if it is lost, until
    /// ``close()``. Thus the first request need not wait for a handshake. The given request itself is not sent.
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
        let name = groups.count < Self.groupLimit || groups[wanted] != nil ? wanted : ""
        let group =
            if let known = groups[name] { known } else {
                try RequestGroup(on: loop, limits: limits, names: names, transports)
            }
        groups[name] = group
        recent = (name, group)
        return group
    }
}
