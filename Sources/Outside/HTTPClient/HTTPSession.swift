package import Addressing
package import Reactor

/// Sends HTTP requests from one loop. Connections are kept, and are shared by the requests of a group.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread, except where a
///   method's comment allows any thread.
package final class HTTPSession: @unchecked Sendable {
    /// The limits for each group of requests.
    package struct Limits: Hashable, Sendable {
        package var connections = 64
        package var connectionsPerHost = 8
        /// The maximum number of simultaneous HTTP/2 requests on one connection. The limit of the server applies as
        /// well.
        package var streams = 1000
        /// The maximum number of simultaneous requests of a group. Requests above this limit fail immediately.
        package var requests = 10_000
        /// For HTTP/2: how long a connection without requests may be silent before a PING is sent.
        package var pingInterval: Duration = .seconds(60)
        /// For HTTP/2: how long a connection may be silent while requests wait for responses, before a PING is sent.
        /// The time doubles with each PING, up to ``pingInterval``.
        package var answerPatience: Duration = .seconds(1)
        /// How long to wait for the answer to a PING. If no answer arrives in time, the connection counts as sick, and
        /// requests are sent on another connection.
        package var pingPatience: Duration = .seconds(1)
        /// How long a sick connection may send no bytes before it is closed.
        package var sickPatience: Duration = .seconds(5)
        /// The pause after a failed attempt to open a connection before the first request. The pause doubles from this
        /// value to the longest pause. If a connection lasted for the longest pause, it is replaced immediately.
        package var firstWarmPause: Duration = .seconds(1)
        package var longestWarmPause: Duration = .seconds(60)
        /// The source address of connections to servers of the same address family; if it is `nil`, the kernel chooses
        /// the address.
        package var source: IPAddress?

        package init() {}
    }

    package typealias Completion = (Result<HTTPClientResponse, HTTPClientError>) -> Void

    /// How many seconds a connection without requests is kept. The time is long, because push providers ask clients to
    /// keep connections.
    package static let idleSeconds = 3600

    package let loop: EventLoop
    private let limits: Limits
    private let names: HostNames
    private let transports: [any HTTPTransport.Type]
    private var groups: [String: RequestGroup] = [:]
    private var recent: (name: String, group: RequestGroup)?

    /// The maximum number of groups. Group names come from the settings. Above this limit, all requests use one group.
    private static let groupLimit = 256

    /// Creates a session. Each request is sent by the first of the `transports` that accepts it.
    package init(on loop: EventLoop, limits: Limits = Limits(), over transports: [any HTTPTransport.Type]) {
        self.loop = loop
        self.limits = limits
        self.transports = transports
        names = HostNames(on: loop)
    }

    deinit {
        // libcurl's handles are freed on the loop's thread, where libcurl may be in use.
        let remains = Remains(groups: Array(groups.values))
        loop.dispose { remains.free() }
    }

    /// Carries the groups of a released session to the loop, where they are freed.
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

    /// Sends a request. The completion is called once, on the loop, and only after this function or
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

    /// Opens a connection for requests like the given one (`https` with HTTP/2). If the connection is lost, a new one
    /// is opened, until ``close()`` is called. Therefore the first request need not wait for a handshake. The given
    /// request itself is not sent.
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
