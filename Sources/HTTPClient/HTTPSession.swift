internal import CCurl
package import Reactor

/// HTTP requests from one loop: connections are kept, shared by HTTP/2 requests, and grouped as the requests say.
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

        package init() {}
    }

    package typealias Completion = (Result<HTTPClientResponse, HTTPClientError>) -> Void

    package let loop: EventLoop
    private let limits: Limits
    private var groups: [String: ConnectionGroup] = [:]

    /// Groups come from configuration; beyond that many, requests share one.
    private static let groupLimit = 256

    /// Once per process, before the first handle.
    private static let isLibraryReady: Bool = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    package init(on loop: EventLoop, limits: Limits = Limits()) {
        precondition(Self.isLibraryReady, "libcurl could not be initialised")
        self.loop = loop
        self.limits = limits
    }

    deinit {
        // Handles are freed where libcurl may still be called: on the loop.
        let remains = Remains(groups: Array(groups.values))
        loop.dispose { remains.free() }
    }

    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    private final class Remains: @unchecked Sendable {
        private var groups: [ConnectionGroup]

        init(groups: [ConnectionGroup]) { self.groups = groups }

        func free() {
            for group in groups { group.failAll(HTTPClientError(.cancelled)) }
            groups = []
        }
    }

    /// Sends the request. The completion is called once, on the loop, never from within this call or from ``cancel()``.
    @discardableResult
    package func send(_ request: HTTPClientRequest, completion: @escaping Completion) -> HTTPExchange {
        let exchange = HTTPExchange(loop: loop, completion)
        guard request.isWellFormed else {
            exchange.finishLater(HTTPClientError(.invalidRequest, detail: "malformed method, URL or header"))
            return exchange
        }
        guard let group = group(request.group), group.activeCount < limits.requests else {
            exchange.finishLater(HTTPClientError(.failed, detail: "too many requests under way"))
            return exchange
        }
        let easy = group.start(request) { exchange.finish($0) }
        if let easy {
            exchange.started(easy, in: group)
        } else {
            exchange.finishLater(HTTPClientError(.invalidRequest, detail: "refused by libcurl"))
        }
        return exchange
    }

    /// Ends all requests with `cancelled` and closes all connections.
    package func close() {
        for group in groups.values { group.failAll(HTTPClientError(.cancelled)) }
        groups = [:]
    }

    /// Requests under way.
    package var activeCount: Int { groups.values.reduce(0) { $0 + $1.activeCount } }

    private func group(_ name: String) -> ConnectionGroup? {
        let name = groups.count < Self.groupLimit || groups[name] != nil ? name : ""
        if let group = groups[name] { return group }
        guard let group = try? ConnectionGroup(on: loop, limits: limits) else { return nil }
        groups[name] = group
        return group
    }
}

/// A request under way.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    private var easy: EasyHandle?
    private weak var group: ConnectionGroup?

    init(loop: EventLoop, _ completion: @escaping HTTPSession.Completion) {
        self.loop = loop
        self.completion = completion
    }

    func started(_ easy: EasyHandle, in group: ConnectionGroup) {
        self.easy = easy
        self.group = group
    }

    /// Takes the request back; its completion comes with `cancelled`. Nothing happens once it is finished.
    package func cancel() {
        guard completion != nil, let easy else { return }
        group?.cancel(easy)
        self.easy = nil
        finishLater(HTTPClientError(.cancelled))
    }

    func finishLater(_ error: HTTPClientError) { loop.post { self.finish(.failure(error)) } }

    func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        easy = nil
        let completion = completion
        self.completion = nil
        completion?(outcome)
    }
}
