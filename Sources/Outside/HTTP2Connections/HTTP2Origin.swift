import Addressing
import Crypto
import HTTPClient
import Reactor
import Timekeeping

/// One server for one kind of client: its HTTP/2 connections, and the requests that wait for them.
///
/// Requests are collected for one turn of the loop, then given to connections in their order and written together.
///
/// - `@unchecked Sendable` because every use is on the loop's thread.
final class HTTP2Origin: @unchecked Sendable {
    /// The values that requests must share to use one connection.
    struct Key: Hashable {
        let target: RequestTarget
        let address: IPAddress?
        let authorityFile: String?
        let certificateFile: String?
        let keyFile: String?

        init?(_ request: HTTPClientRequest) {
            guard let target = RequestTarget(request.url), target.isSecure, !target.hasUser else { return nil }
            self.target = target
            let route = request.route
            address = route.address
            authorityFile = route.authorityFile
            certificateFile = route.certificateFile
            keyFile = route.keyFile
        }
    }

    let key: Key
    /// The request for which the origin was created.
    private let model: HTTPClientRequest
    let loop: EventLoop
    let limits: HTTPSession.Limits
    let names: HostNames

    var waiting = ExchangeQueue()
    /// In the order of opening. Connections that accept no more requests stay until theirs are answered.
    var connections: [HTTP2Connection] = []
    private var isFlushDue = false
    /// Whether requests are being finished. Requests from their completions are written right afterwards.
    private var isFinishing = false
    /// Whether requests are being moved from a lost connection back to the queue.
    private var isRecovering = false
    private var isClosed = false

    // Opening, see HTTP2Origin+Opening.swift.
    var opening: Opening?
    var context: (made: Instant, context: TLSContext)?
    /// No additional connection besides a good one before this.
    var nextSpare = Instant.distantPast
    var isKeptWarm = false
    var warmTimer: LoopTimer?
    /// When the next connection may be opened before requests.
    var nextWarm = Instant.distantPast
    /// How long to wait after that for another.
    var warmPause: Duration
    /// Until when the server is known not to support HTTP/2; in the distant past if it never was.
    private var withoutHTTP2Until = Instant.distantPast

    /// How many times a request that the server has not processed is sent.
    private static let tryLimit = 4
    /// How long it is remembered that the server does not support HTTP/2.
    private static let withoutHTTP2Time: Duration = .seconds(3600)
    /// Bytes of waiting output above which a connection gets no further requests.
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

    /// Whether this object can be released without losing anything.
    var isForgettable: Bool {
        waiting.count == 0 && connections.isEmpty && opening == nil && !isKeptWarm && speaksHTTP2 && !isFinishing
            && !isRecovering
    }

    // MARK: Requests

    /// Whether the request has this key. This is cheaper than making the request's own key.
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

    /// Requests that no server has processed wait again, before the others.
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

    /// The server supports only HTTP/1.1: the requests are passed to the transport for it.
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

    /// Gives waiting requests to connections, sends their output, and opens another connection if needed.
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

    /// Runs the body, which finishes requests, and then sends waiting output.
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

    /// Removes a closed connection. Its active requests that were written fail, and the others are sent again.
    func lost(
        _ connection: HTTP2Connection, _ error: HTTPClientError, written: [HTTPExchange], unwritten: [HTTPExchange]
    ) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        isRecovering = true
        for exchange in written { exchange.finish(.failure(error)) }
        // Only once, because a server that accepts connections and drops them would be asked without end.
        sendAgain(unwritten, tryLimit: 2, error)
        isRecovering = false
        // It never received the server's settings, and neither would the next one.
        if !connection.hasWorked, connections.isEmpty, opening == nil { failWaiting(error) }
        flushSoon()
    }
}
