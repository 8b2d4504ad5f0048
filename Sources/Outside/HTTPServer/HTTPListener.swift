package import Addressing
import Collections
package import Crypto
import HTTPSemantics
package import Reactor
import Timekeeping

/// An HTTP/1.1 server on an event loop, with any number of sockets and one request handler.
///
/// libevent's own HTTP server is not used. It is lenient about line ends, lengths and repeated fields, does not limit
/// connections, and restarts its time limit at each byte.
///
/// The release of the last reference closes the listener.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class HTTPListener: @unchecked Sendable {
    /// The limits of each connection, and of the number of connections.
    package struct Limits: Hashable, Sendable {
        /// The maximum size in bytes of request line and header fields; a longer head is answered with 431.
        package var head = 16 << 10
        /// The maximum size in bytes of a body, including a chunked body's size lines; a longer body is answered with
        /// 413.
        package var body = 1 << 20
        /// The time limit from the first to the last byte of a head. For the first request of a connection, the time
        /// begins when the connection is opened.
        package var headTimeout: Duration = .seconds(10)
        /// The time limit from the end of a head to the end of its body.
        package var bodyTimeout: Duration = .seconds(30)
        /// How long a connection without a request stays open.
        package var idleTimeout: Duration = .seconds(60)
        /// If a client reads none of the waiting output for this time, the connection is closed.
        package var outputTimeout: Duration = .seconds(30)
        /// The maximum number of connections of the listener. At the limit of connections, a new connection replaces
        /// the connection that has been idle longest. If no connection is idle, the new connection is closed.
        package var connections = 1000
        /// The maximum number of connections from one IPv4 address or IPv6 /64; further connections are closed.
        package var connectionsPerSource = 1000
        /// How long a connection stays open after a refused request, so that the client can read the answer.
        package var lingerTimeout: Duration = .seconds(2)
        /// The number of requests that are handled in one iteration of the loop; further requests wait in order.
        package var requestsPerTurn = Int.max
        /// The priority of the connections' events.
        package var turn = LoopTurn.usual

        package init() {}
    }

    /// Serves a request on the loop's thread, and answers before or after its own return.
    package typealias Handler = (HTTPRequest, HTTPReply) -> Void

    /// The limits of connections that are accepted from now on. A change of `turn` affects only addresses on which the
    /// listener starts to listen later.
    package var limits: Limits {
        didSet { for socket in sockets { socket.connectionLimits = streamLimits } }
    }
    private let loop: EventLoop
    private let handler: Handler
    private var sockets: [StreamListener] = []
    private var connections: [UInt64: HTTPConnection] = [:]
    private var sources: [IPAddress: Int] = [:]
    /// The functions that take over connections of other protocols, by ALPN name.
    private var takers: [String: (StreamConnection) -> Void] = [:]
    /// The connections that wait for their next request; the first has waited longest.
    private var idle = AgeList<UInt64>()
    /// The connections with an unanswered request, by the request's id.
    private(set) var waiting: [UInt64: HTTPConnection] = [:]
    private var lastNumber: UInt64 = 0
    /// Requests that wait for a later iteration of the loop, at most one for each connection.
    private var queue = Queue<(number: UInt64, request: HTTPRequest)>()
    private var isTurnPlanned = false

    /// The maximum size in bytes of the waiting output of a connection, more than the longest answer.
    private static let outputLimit = 256 << 20

    package init(on loop: EventLoop, limits: Limits = Limits(), handler: @escaping Handler) throws(SystemError) {
        self.loop = loop
        self.limits = limits
        self.handler = handler
    }

    // MARK: Sockets

    /// Starts to listen on one more address, with TLS if a context is given.
    ///
    /// Connections from `balancers` must begin with a PROXY header, and are otherwise passed to `unannounced`. If the
    /// port is 0, the system chooses the port. The function returns the address with the port in use.
    @discardableResult
    package func listen(
        on endpoint: Endpoint, tls: TLSContext? = nil, balancers: [AddressBlock] = [],
        unannounced: @escaping (StreamConnection) -> Void = { _ in }
    ) throws(SystemError) -> Endpoint {
        let socket = try StreamListener(
            boundTo: endpoint, on: loop, tls: tls, limit: .max, connectionLimits: streamLimits
        ) { [weak self] stream in self?.accepted(stream) }
        socket.balancers = balancers
        socket.unannouncedRefused = unannounced
        sockets.append(socket)
        return socket.local
    }

    /// Listens on a Unix-domain socket to which only this process's user and root can connect. When the listener is
    /// closed, it removes the socket's file.
    package func listen(unixPath: String) throws(SystemError) {
        sockets.append(
            try StreamListener(
                unixPath: unixPath, on: loop, limit: .max, connectionLimits: streamLimits
            ) { [weak self] stream in self?.accepted(stream) })
    }

    /// Sets the TLS context for new connections, for example after a certificate was renewed.
    package func replaceTLS(_ tls: TLSContext) {
        loop.checkThread()
        for socket in sockets where socket.tls != nil { socket.tls = tls }
    }

    /// Passes each connection to `taker` whose client chooses the given protocol by ALPN, such as `h2`. The connection
    /// is passed after its TLS handshake. The listener's limits then no longer apply to the connection.
    package func give(_ applicationProtocol: String, to taker: @escaping (StreamConnection) -> Void) {
        takers[applicationProtocol] = taker
    }

    /// Serves a connection that other code has accepted and opened, for example a connection with HTTP in ALPN.
    package func serve(_ stream: StreamConnection) {
        stream.outputLimit = Self.outputLimit
        stream.outputMark = nil
        admit(stream) { connection throws(SystemError) in try connection.takeOver(on: loop) }
    }

    func taker(of stream: StreamConnection) -> ((StreamConnection) -> Void)? {
        stream.tls?.applicationProtocol.flatMap { takers[$0] }
    }

    /// Stops listening, and closes all connections, even with unanswered requests.
    package func close() {
        loop.checkThread()
        sockets = []
        waiting = [:]
        queue = Queue()
        for connection in connections.values { connection.close() }
    }

    private var streamLimits: StreamConnection.Limits {
        var streams = StreamConnection.Limits()
        streams.output = Self.outputLimit
        streams.openTimeout = limits.headTimeout
        streams.outputTimeout = limits.outputTimeout
        streams.turn = limits.turn
        return streams
    }

    // MARK: Connections

    private func accepted(_ stream: StreamConnection) {
        admit(stream) { connection throws(SystemError) in try connection.start(on: loop) }
    }

    private func admit(_ stream: StreamConnection, _ start: (HTTPConnection) throws(SystemError) -> Void) {
        let source = stream.remote.address.source
        guard stream.remote.port == 0 || sources[source, default: 0] < limits.connectionsPerSource, makesRoom()
        else { return stream.close() }
        let connection = HTTPConnection(stream, of: self, limits: limits)
        connections[stream.id] = connection
        sources[source, default: 0] += 1
        do {
            try start(connection)
        } catch {
            connection.close()
        }
    }

    private func makesRoom() -> Bool {
        guard connections.count >= limits.connections else { return true }
        guard let oldest = idle.oldest.flatMap({ connections[$0] }) else { return false }
        oldest.close()
        return true
    }

    func becameIdle(_ connection: HTTPConnection) -> AgeList<UInt64>.Place { idle.append(connection.stream.id) }

    func isBusy(_ place: AgeList<UInt64>.Place) { idle.remove(place) }

    func ended(_ connection: HTTPConnection) {
        guard connections.removeValue(forKey: connection.stream.id) != nil else { return }
        let source = connection.stream.remote.address.source
        let left = sources[source, default: 1] - 1
        sources[source] = left > 0 ? left : nil
        waiting = waiting.filter { $0.value !== connection }
    }

    // MARK: Requests

    func received(_ request: HTTPRequest, on connection: HTTPConnection) {
        lastNumber += 1
        waiting[lastNumber] = connection
        guard limits.requestsPerTurn < .max else {
            return handler(request, HTTPReply(to: lastNumber, on: loop, of: self))
        }
        queue.append((lastNumber, request))
        planTurn()
    }

    /// Posts a job that handles waiting requests after all events that are ready now.
    private func planTurn() {
        guard !isTurnPlanned else { return }
        isTurnPlanned = true
        loop.post { [weak self] in self?.takeTurn() }
    }

    private func takeTurn() {
        isTurnPlanned = false
        var left = limits.requestsPerTurn
        while left > 0, let (number, request) = queue.popFirst() {
            // The request is skipped if its client has disconnected.
            guard waiting[number] != nil else { continue }
            left -= 1
            handler(request, HTTPReply(to: number, on: loop, of: self))
        }
        if !queue.isEmpty { planTurn() }
    }

    func answer(_ number: UInt64, with response: HTTPResponse) {
        waiting.removeValue(forKey: number)?.answer(response, at: date)
    }

    func begin(_ number: UInt64, with response: HTTPResponse) {
        guard let connection = waiting[number] else { return }
        if !connection.begin(response, at: date) { waiting[number] = nil }
    }

    func send(_ number: UInt64, _ piece: [UInt8], _ asks: @escaping (Bool) -> Void) {
        guard let connection = waiting[number] else { return asks(false) }
        connection.send(piece, asks)
    }

    func endBody(_ number: UInt64) { waiting.removeValue(forKey: number)?.endBody() }

    func hangUp(_ number: UInt64) { waiting.removeValue(forKey: number)?.close() }

    func upgrade(
        _ number: UInt64, _ fields: [HTTPField], _ take: @escaping @Sendable (StreamConnection, [UInt8]) -> Void
    ) {
        waiting.removeValue(forKey: number)?.upgrade(fields, at: date, on: loop, take)
    }

    /// The time by which the `Date` field of answers is ahead of the real time. Tests use the value to imitate a wrong
    /// clock.
    package var clockLead: Duration = .zero

    var date: UnixTime { loop.moment.date + clockLead }

    /// The number of connections, including connections in their TLS handshake.
    package var connectionCount: Int { connections.count }

    /// The number of requests so far, including incomplete requests that were refused.
    package private(set) var requestCount: UInt64 = 0
    /// The number of requests answered with a status of 400 or more.
    package private(set) var refusedCount: UInt64 = 0

    func answered(_ status: Int) {
        requestCount += 1
        if status >= 400 { refusedCount += 1 }
    }
}
