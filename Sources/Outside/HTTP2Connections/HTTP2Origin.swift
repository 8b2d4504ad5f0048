import Addressing
import Crypto
import HTTPClient
import Reactor
import Timekeeping

/// One server with one kind of client identity: its HTTP/2 connections, and the requests that wait for them.
///
/// Requests are collected for one turn of the loop, then distributed to connections in their order, and written
/// together.
///
/// - `@unchecked Sendable` because every use is on the loop's thread.
final class HTTP2Origin: @unchecked Sendable {
    /// The values in which two requests must agree to use the same connection.
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
    /// The request for which the origin was created.
    private let model: HTTPClientRequest
    let loop: EventLoop
    let limits: HTTPSession.Limits
    let names: HostNames

    var waiting = ExchangeQueue()
    /// The connections in the order in which they were opened. A connection that accepts no more requests stays until
    /// its requests are answered.
    var connections: [HTTP2Connection] = []
    private var isFlushDue = false
    /// Whether completions of requests are being called. Requests that they start are written right afterwards.
    private var isFinishing = false
    /// Whether requests are being moved from a lost connection back to the queue.
    private var isRecovering = false
    private var isClosed = false

    // The values for opening connections, see HTTP2Origin+Opening.swift.
    var opening: Opening?
    var context: (made: Instant, context: TLSContext)?
    /// The time before which no additional connection is opened while a good one exists.
    var nextSpare = Instant.distantPast
    var isKeptWarm = false
    var warmTimer: LoopTimer?
    /// The time before which no connection is opened without a request.
    var nextWarm = Instant.distantPast
    /// The pause after the next such attempt.
    var warmPause: Duration
    /// The time until which the server is assumed not to support HTTP/2. It is in the distant past if the server
    /// supports it.
    private var withoutHTTP2Until = Instant.distantPast

    /// How many times a request is sent if the server reports each time that it did not process it.
    private static let tryLimit = 4
    /// How long the origin remembers that the server does not support HTTP/2.
    private static let withoutHTTP2Time: Duration = .seconds(3600)
    /// The number of bytes of waiting output above which a connection gets no further requests.
    private static let outputLimit = 1 << 20

    /// `nil` if memory is lacking.
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

    /// Whether this object can be released: it has neither requests nor connections, and nothing to remember.
    var isForgettable: Bool {
        waiting.count == 0 && connections.isEmpty && opening == nil && !isKeptWarm && speaksHTTP2 && !isFinishing
            && !isRecovering
    }

    // MARK: Requests

    /// Whether the request belongs to this origin. The comparison is cheaper than making a key for the request.
    func fits(_ request: HTTPClientRequest) -> Bool {
        key.target.begins(request.url) && request.hasRoute(of: model)
    }

    func send(_ exchange: HTTPExchange) {
        waiting.append(exchange)
        flushSoon()
    }

    /// Removes a request from the queue, or from its stream.
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

    /// Puts requests that no server has processed back into the queue, before the others.
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

    /// Passes the waiting requests to the transport for HTTP/1.1, because the server does not support HTTP/2.
    func handOver() {
        withoutHTTP2Until = loop.now + Self.withoutHTTP2Time
        for exchange in waiting.removeAll() { exchange.passOn() }
    }

    // MARK: Writing

    /// Calls ``flush()`` at the end of this turn of the loop.
    func flushSoon() {
        guard !isFlushDue else { return }
        isFlushDue = true
        guard !isFinishing else { return }
        loop.post { [weak self] in
            guard let self, self.isFlushDue else { return }
            self.flush()
        }
    }

    /// Distributes waiting requests to connections, sends their output, and opens another connection if needed.
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

    /// Runs a body that finishes requests, and then sends the output that waits.
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

    /// Removes a closed connection. Active requests that were written fail. The other requests are sent again.
    func lost(
        _ connection: HTTP2Connection, _ error: HTTPClientError, written: [HTTPExchange], unwritten: [HTTPExchange]
    ) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        isRecovering = true
        for exchange in written { exchange.finish(.failure(error)) }
        // They are sent again only once. Otherwise a server that accepts connections and drops them would get requests
        // without end.
        sendAgain(unwritten, tryLimit: 2, error)
        isRecovering = false
        // The connection ended before the server's settings arrived. The next connection would most likely end in the
        // same way.
        if !connection.hasWorked, connections.isEmpty, opening == nil { failWaiting(error) }
        flushSoon()
    }
}
