package import Addressing
package import Reactor

/// HTTP requests from one loop: connections are kept, shared, and grouped as the requests say.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread, except where a method says otherwise.
package final class HTTPSession: @unchecked Sendable {
    /// Limits of each connection group.
    package struct Limits: Hashable, Sendable {
        package var connections = 64
        package var connectionsPerHost = 8
        /// HTTP/2 requests at a time on one connection; the server's own limit counts too.
        package var streams = 1000
        /// Requests at a time; more fail at once.
        package var requests = 10_000
        /// HTTP/2: after how much silence on an idle connection the server is asked for a sign of life (PING).
        package var pingInterval: Duration = .seconds(60)
        /// The same while requests wait for answers. It doubles with each PING, up to ``pingInterval``.
        package var answerPatience: Duration = .seconds(1)
        /// How long a PING may stay without an answer. Then the connection counts as sick, and requests go to another.
        package var pingPatience: Duration = .seconds(1)
        /// After how long without a byte a sick connection is given up.
        package var sickPatience: Duration = .seconds(5)
        /// The pause between attempts to open a connection ahead of requests. It doubles from the first to the longest.
        /// A connection that lasted for the longest pause is replaced at once.
        package var firstWarmPause: Duration = .seconds(1)
        package var longestWarmPause: Duration = .seconds(60)
        /// The address that connections leave from, to servers that have one of its family. Without it the kernel chooses.
        package var source: IPAddress?

        package init() {}
    }

    package typealias Completion = (Result<HTTPClientResponse, HTTPClientError>) -> Void

    /// How many seconds a connection without requests is kept. Providers ask for connections that are kept.
    package static let idleSeconds = 3600

    package let loop: EventLoop
    private let limits: Limits
    private let names: HostNames
    private let transports: [any HTTPTransport.Type]
    private var groups: [String: RequestGroup] = [:]
    private var recent: (name: String, group: RequestGroup)?

    /// How many groups there may be. They come from configuration; the requests of any more share one.
    private static let groupLimit = 256

    /// Each request goes over the first of the transports that takes it.
    package init(on loop: EventLoop, limits: Limits = Limits(), over transports: [any HTTPTransport.Type]) {
        self.loop = loop
        self.limits = limits
        self.transports = transports
        names = HostNames(on: loop)
    }

    deinit {
        // Handles are freed where libcurl may still be called: on the loop.
        let remains = Remains(groups: Array(groups.values))
        loop.dispose { remains.free() }
    }

    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    private final class Remains: @unchecked Sendable {
        private var groups: [RequestGroup]

        init(groups: [RequestGroup]) { self.groups = groups }

        func free() {
            for group in groups { group.close(HTTPClientError(.cancelled)) }
            groups = []
        }
    }

    /// Sends the request. The completion is called once, on the loop, never from within this call or from
    /// ``HTTPExchange/cancel()``.
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

    /// Opens a connection for requests like this one, `https` and HTTP/2, and opens another whenever it is lost, until
    /// ``close()``: so the first request need not wait for a handshake. The request itself is not sent.
    package func keepWarm(_ request: HTTPClientRequest) {
        loop.checkThread()
        try? group(of: request).keepWarm(request)
    }

    /// Ends all requests with `cancelled` and closes all connections.
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
