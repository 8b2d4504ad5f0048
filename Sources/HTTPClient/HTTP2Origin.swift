import Addressing
import Crypto
import HTTP2
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
            guard let target = RequestTarget(request.url) else { return nil }
            self.target = target
            address = request.address
            authorityFile = request.authorityFile
            certificateFile = request.certificateFile
            keyFile = request.keyFile
        }

        func fits(_ request: HTTPClientRequest) -> Bool {
            target.begins(request.url) && authorityFile == request.authorityFile
                && certificateFile == request.certificateFile && keyFile == request.keyFile
                && address == request.address
        }
    }

    let key: Key
    let loop: EventLoop
    let limits: HTTPSession.Limits
    let names: HostNames
    private let withoutHTTP2: (HTTPExchange) -> Void

    var waiting = ExchangeQueue()
    /// In the order they were opened; those that take no more requests stay until theirs are answered.
    var connections: [HTTP2Connection] = []
    private(set) var activeCount = 0
    private var sentCount = 0
    private var deadlines = DeadlineQueue<HTTPExchange>()
    private var deadlineTimer: LoopTimer?
    private var isFlushDue = false
    /// Requests are being finished; what their completions send is written right after.
    private var isSettling = false
    private var isClosed = false

    // Opening, see HTTP2Origin+Opening.swift.
    var opening: Opening?
    var context: (made: Instant, context: TLSContext)?
    /// No further connection beside a good one before this.
    var nextSpare = Instant.distantPast
    var isKeptWarm = false
    var warmTimer: LoopTimer?
    /// When a connection may be made ahead of requests, and how long to wait after that.
    var nextWarm = Instant.distantPast
    var warmPause: Duration
    private var withoutHTTP2Until = Instant.distantPast

    /// How often a request that the server has not looked at is sent.
    private static let tryLimit = 4
    /// How long it is remembered that the server does not speak HTTP/2.
    private static let withoutHTTP2Time: Duration = .seconds(3600)
    /// Bytes that wait to be sent on a connection before it takes further requests.
    private static let outputLimit = 1 << 20

    /// `nil` for lack of memory. `withoutHTTP2` takes the requests when the server speaks HTTP/1.1 only.
    init?(
        _ key: Key, on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames,
        withoutHTTP2: @escaping (HTTPExchange) -> Void
    ) {
        self.key = key
        self.loop = loop
        self.limits = limits
        self.names = names
        self.withoutHTTP2 = withoutHTTP2
        warmPause = limits.firstWarmPause
        do throws(SystemError) {
            deadlineTimer = try LoopTimer(on: loop) { [weak self] in self?.deadlineCame() }
            warmTimer = try LoopTimer(on: loop) { [weak self] in self?.flush() }
        } catch {
            return nil
        }
    }

    var speaksHTTP2: Bool { withoutHTTP2Until == .distantPast || loop.now >= withoutHTTP2Until }

    /// Nothing is lost when this object goes.
    var isForgettable: Bool { activeCount == 0 && connections.isEmpty && opening == nil && !isKeptWarm && speaksHTTP2 }

    // MARK: Requests

    func send(_ exchange: HTTPExchange) {
        let now = loop.now
        let end = now + exchange.request.timeout
        exchange.origin = self
        exchange.number = sentCount
        sentCount += 1
        exchange.started = now
        exchange.deadline = deadlines.schedule(exchange, at: end)
        activeCount += 1
        if deadlineTimer?.deadline.map({ end < $0 }) ?? true { deadlineTimer?.arm(at: end) }
        waiting.append(exchange)
        flushSoon()
    }

    /// Takes a request back without calling its completion.
    func cancel(_ exchange: HTTPExchange) {
        takeBack(exchange)
        flushSoon()
    }

    /// Out of the queue or off its stream.
    private func takeBack(_ exchange: HTTPExchange) {
        let connection = exchange.connection
        forget(exchange)
        if let connection { connection.cancel(exchange.stream) } else { waiting.noteEnd() }
    }

    /// Ends all requests and connections.
    func close(_ error: HTTPClientError) {
        isClosed = true
        isKeptWarm = false
        opening = nil
        let connections = connections
        self.connections = []
        let ended = waiting.removeAll() + connections.flatMap { $0.close() }
        for exchange in ended { finish(exchange, .failure(error)) }
    }

    func finish(_ exchange: HTTPExchange, _ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard exchange.origin != nil else { return }
        forget(exchange)
        exchange.finish(outcome)
    }

    private func forget(_ exchange: HTTPExchange) {
        deadlines.cancel(exchange.deadline)
        exchange.origin = nil
        exchange.connection = nil
        activeCount -= 1
    }

    func failWaiting(_ error: HTTPClientError) {
        for exchange in waiting.removeAll() { finish(exchange, .failure(error)) }
    }

    /// Requests that no server has looked at wait again, before the others.
    func sendAgain(_ exchanges: [HTTPExchange], tryLimit: Int = HTTP2Origin.tryLimit, _ error: HTTPClientError) {
        var again: [HTTPExchange] = []
        for exchange in exchanges where exchange.origin != nil {
            if exchange.tries < tryLimit, !isClosed {
                exchange.connection = nil
                again.append(exchange)
            } else {
                finish(exchange, .failure(error))
            }
        }
        waiting.prepend(again.sorted { $0.number < $1.number })
        flushSoon()
    }

    private func deadlineCame() {
        let now = loop.now
        while let exchange = deadlines.popExpired(now: now) {
            takeBack(exchange)
            exchange.finish(.failure(HTTPClientError(.timeout, detail: "no answer in time")))
        }
        if let next = deadlines.nextDeadline { deadlineTimer?.arm(at: next) }
        flush()
    }

    /// The server turned out to speak HTTP/1.1 only: whoever speaks it takes the requests.
    func handOver() {
        withoutHTTP2Until = loop.now + Self.withoutHTTP2Time
        for exchange in waiting.removeAll() {
            forget(exchange)
            withoutHTTP2(exchange)
        }
    }

    // MARK: Writing

    /// At the end of this turn of the loop.
    func flushSoon() {
        guard !isFlushDue else { return }
        isFlushDue = true
        guard !isSettling else { return }
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

    /// Finishes what a connection has finished, then goes on with what waits.
    func settle(_ body: () -> Void) {
        isSettling = true
        body()
        isSettling = false
        flush()
    }

    func drop(_ connection: HTTP2Connection) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        _ = connection.close()
    }

    /// The connection is gone, with these requests under way.
    func lost(
        _ connection: HTTP2Connection, _ error: HTTPClientError, written: [HTTPExchange], unwritten: [HTTPExchange]
    ) {
        connections.removeAll { $0 === connection }
        noteEnd(of: connection)
        for exchange in written { finish(exchange, .failure(error)) }
        // Once, since a server that takes connections and drops them would be asked without end.
        sendAgain(unwritten, tryLimit: 2, error)
        // It never got to work: the next one would not either.
        if !connection.hasWorked, connections.isEmpty, opening == nil { failWaiting(error) }
        flushSoon()
    }
}
