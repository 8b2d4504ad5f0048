import Addressing
import Crypto
import HTTPClient
import Reactor
import Timekeeping

/// The HTTP/2 connections to one server with one client certificate, and the requests that wait for these connections.
///
/// Requests that begin in the same iteration of the loop are distributed to connections and written together.
///
/// - The type is `@unchecked Sendable`, because only the loop's thread uses it.
final class HTTP2Origin: @unchecked Sendable {
    /// The values that two requests must share to use the same connection.
    struct Key: Hashable {
        let target: RequestTarget
        let address: IPAddress?
        let proxy: HTTPProxy?
        let authority: PEM?
        let certificate: PEM?
        let key: PEM?

        init?(_ request: HTTPClientRequest) {
            guard let target = RequestTarget(request.url), target.isSecure, !target.hasUser else { return nil }
            self.target = target
            let route = request.route
            address = route.address
            proxy = route.proxy
            authority = route.authority
            certificate = route.certificate
            key = route.key
        }
    }

    let key: Key
    /// The first request to the server; all connections use the route and options of this request.
    private let model: HTTPClientRequest
    let loop: EventLoop
    let limits: HTTPSession.Limits
    let names: HostNames

    var waiting = ExchangeQueue()
    /// The connections in the order of their opening. A connection that accepts no more requests stays until its
    /// requests are answered.
    var connections: [HTTP2Connection] = []
    private var isFlushDue = false
    /// Whether completions are running; requests that a completion starts are written afterwards.
    private var isFinishing = false
    /// Whether requests are being moved from a lost connection back to the queue.
    private var isRecovering = false
    private var isClosed = false

    // The attempt to open a connection, if any. HTTP2Origin+Opening.swift uses `opening` and the properties after it.
    var opening: Opening?
    var context: (made: Instant, context: TLSContext)?
    /// The time until which no additional connection is opened while a good one exists.
    var nextSpare = Instant.distantPast
    var isKeptWarm = false
    var warmTimer: LoopTimer?
    /// The earliest time at which a connection may be opened before a request needs the connection.
    var nextWarm = Instant.distantPast
    /// The pause after the next failed attempt to open a connection that no request needs yet.
    var warmPause: Duration
    /// The time until which the server is taken not to support HTTP/2; in the distant past if it does.
    private var withoutHTTP2Until = Instant.distantPast

    /// How often a request is sent while the server reports each time that it did not process it.
    private static let tryLimit = 4
    /// How long the origin remembers that the server does not support HTTP/2.
    private static let withoutHTTP2Time: Duration = .seconds(3600)
    /// If more bytes of output wait, the connection gets no more requests.
    private static let outputLimit = 1 << 20

    /// Creates the origin of a request; `nil` if memory is lacking.
    init?(_ key: Key, of request: HTTPClientRequest, on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) {
        self.key = key
        model = request
        self.loop = loop
        self.limits = limits
        self.names = names
        warmPause = limits.firstWarmPause
        warmTimer = try? LoopTimer(on: loop) { [weak self] in self?.flush() }
        guard warmTimer != nil else { return nil }
    }

    var speaksHTTP2: Bool { withoutHTTP2Until == .distantPast || loop.now >= withoutHTTP2Until }

    /// Whether the origin can be released: it has no requests and no connections, and need not remember anything about
    /// the server.
    var isForgettable: Bool {
        waiting.count == 0 && connections.isEmpty && opening == nil && !isKeptWarm && speaksHTTP2 && !isFinishing
            && !isRecovering
    }

    // MARK: Requests

    /// Whether the request has the origin's server and client certificate. ``fits(_:)`` compares requests, because a
    /// dictionary key for each request would cost more time.
    func fits(_ request: HTTPClientRequest) -> Bool {
        key.target.begins(request.url) && request.hasRoute(of: model)
    }

    func send(_ exchange: HTTPExchange) {
        waiting.append(exchange)
        flushSoon()
    }

    /// Cancels a request that waits in the queue or is active on a stream.
    func takeBack(_ exchange: HTTPExchange) {
        if let connection = exchange.connection as? HTTP2Connection {
            connection.cancel(exchange.stream)
        } else {
            waiting.noteEnd()
        }
        flushSoon()
    }

    /// Closes all connections.
    ///
    /// - Returns: the requests that waited or were active.
    func close() -> [HTTPExchange] {
        isClosed = true
        isKeptWarm = false
        opening = nil
        let connections = connections
        self.connections = []
        return waiting.removeAll() + connections.flatMap { $0.close() }
    }

    func failWaiting(_ error: HTTPClientError) {
        for exchange in waiting.removeAll() { exchange.finish(.failure(error)) }
    }

    /// Puts requests that no server has processed back into the queue, before all other requests.
    func sendAgain(_ exchanges: [HTTPExchange], tryLimit: Int = HTTP2Origin.tryLimit, _ error: HTTPClientError) {
        var again: [HTTPExchange] = []
        for exchange in exchanges where exchange.isUnderWay {
            if exchange.tries < tryLimit, !isClosed {
                exchange.connection = nil
                again.append(exchange)
            } else {
                exchange.finish(.failure(error))
            }
        }
        waiting.prepend(again.sorted { $0.number < $1.number })
        flushSoon()
    }

    /// Passes the waiting requests to the HTTP/1.1 transport, because the server does not support HTTP/2.
    func handOver() {
        withoutHTTP2Until = loop.now + Self.withoutHTTP2Time
        for exchange in waiting.removeAll() { exchange.passOn() }
    }

    // MARK: Writing

    /// Calls ``flush()`` at the end of the loop's iteration.
    func flushSoon() {
        guard !isFlushDue else { return }
        isFlushDue = true
        guard !isFinishing else { return }
        loop.post { [weak self] in
            guard let self, self.isFlushDue else { return }
            self.flush()
        }
    }

    /// Distributes waiting requests to connections, sends the output, and opens another connection if needed.
    func flush() {
        isFlushDue = false
        guard !isClosed else { return }
        let now = loop.now
        for connection in connections {
            while waiting.count > 0, connection.isGood, connection.hasRoom, connection.outputCount < Self.outputLimit,
                let exchange = waiting.popFirst()
            {
                guard connection.start(exchange, now: now) else {
                    waiting.prepend([exchange])
                    break
                }
            }
            connection.write()
            if connection.hasFinished { loop.post { connection.finishRest() } }
        }
        for connection in connections where connection.isDone { drop(connection) }
        openIfWanted(now: now)
    }

    /// Runs the given code, which calls completions, and then sends the output that waits.
    func goOn(after body: () -> Void) {
        isFinishing = true
        body()
        isFinishing = false
        flush()
    }

    func drop(_ connection: HTTP2Connection) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        _ = connection.close()
    }

    /// Removes a connection that has ended. Active requests of a lost connection fail if they were already written; if
    /// not, they are sent again.
    func lost(
        _ connection: HTTP2Connection, _ error: HTTPClientError, written: [HTTPExchange], unwritten: [HTTPExchange]
    ) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        isRecovering = true
        for exchange in written { exchange.finish(.failure(error)) }
        // An unwritten request gets only one more attempt, because the server might accept and drop connections
        // forever.
        sendAgain(unwritten, tryLimit: 2, error)
        isRecovering = false
        // If a connection ends without the server's SETTINGS, the next connection would probably end without SETTINGS
        // too, so waiting requests fail.
        if !connection.hasWorked, connections.isEmpty, opening == nil { failWaiting(error) }
        flushSoon()
    }
}
