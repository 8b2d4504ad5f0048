import Addressing
import Crypto
import HTTPClient
import Reactor
import Timekeeping

/// One server as one kind of client sees it: its HTTP/2 connections, and the requests that wait for them.
///
/// Requests are collected for one turn of the loop, then given to connections in their order and written together.
///
/// - `@unchecked Sendable` because every use is on the loop's thread.
final class HTTP2Origin: @unchecked Sendable {
    /// What requests must have in common to share a connection.
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
    /// The request that the origin was made for.
    private let model: HTTPClientRequest
    let loop: EventLoop
    let limits: HTTPSession.Limits
    let names: HostNames

    var waiting = ExchangeQueue()
    /// In the order they were opened; those that take no more requests stay until theirs are answered.
    var connections: [HTTP2Connection] = []
    private var isFlushDue = false
    /// Whether requests are being finished. What their completions send is written right after that.
    private var isFinishing = false
    /// Whether requests are moved from a lost connection back to those that wait.
    private var isRecovering = false
    private var isClosed = false

    // Opening, see HTTP2Origin+Opening.swift.
    var opening: Opening?
    var context: (made: Instant, context: TLSContext)?
    /// No further connection beside a good one before this.
    var nextSpare = Instant.distantPast
    var isKeptWarm = false
    var warmTimer: LoopTimer?
    /// When the next connection may be made ahead of requests.
    var nextWarm = Instant.distantPast
    /// How long to wait after that for another.
    var warmPause: Duration
    /// Until when the server is believed to speak no HTTP/2; in the distant past when that was never found.
    private var withoutHTTP2Until = Instant.distantPast

    /// How often a request that the server has not looked at is sent.
    private static let tryLimit = 4
    /// How long it is remembered that the server does not speak HTTP/2.
    private static let withoutHTTP2Time: Duration = .seconds(3600)
    /// Bytes that wait to be sent on a connection before it takes further requests.
    private static let outputLimit = 1 << 20

    /// `nil` for lack of memory.
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

    /// Whether nothing is lost when this object goes.
    var isForgettable: Bool {
        waiting.count == 0 && connections.isEmpty && opening == nil && !isKeptWarm && speaksHTTP2 && !isFinishing
            && !isRecovering
    }

    // MARK: Requests

    /// Whether the request has the key. This costs less than making the request's own key.
    func fits(_ request: HTTPClientRequest) -> Bool {
        key.target.begins(request.url) && request.hasRoute(of: model)
    }

    func send(_ exchange: HTTPExchange) {
        waiting.append(exchange)
        flushSoon()
    }

    /// Takes a request out of the queue, or off its stream.
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
    /// - Returns: the requests that waited or were under way.
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

    /// Requests that no server has looked at wait again, before the others.
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

    /// The server turned out to speak HTTP/1.1 only: whoever speaks it takes the requests.
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

    /// Gives waiting requests to connections, writes what they have to say, and opens another when one is wanted.
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

    /// Runs the body, which finishes requests, and then sends what waits.
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

    /// Forgets a connection that is gone. Of the requests under way on it those that were written fail, and the others
    /// are sent again.
    func lost(
        _ connection: HTTP2Connection, _ error: HTTPClientError, written: [HTTPExchange], unwritten: [HTTPExchange]
    ) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        isRecovering = true
        for exchange in written { exchange.finish(.failure(error)) }
        // Once, since a server that takes connections and drops them would be asked without end.
        sendAgain(unwritten, tryLimit: 2, error)
        isRecovering = false
        // It never got to work: the next one would not either.
        if !connection.hasWorked, connections.isEmpty, opening == nil { failWaiting(error) }
        flushSoon()
    }
}
