import Addressing
import Crypto
import Foundation
import HTTP2
import LoopTesting
import Reactor

/// A test server that uses HTTP/2 over TLS. The fake server passes each request to the test, which answers it.
actor FakeHTTP2Server {
    /// A request, and the number of the connection on which it arrived, counted from 0.
    struct Arrival: Sendable {
        let connection: Int
        let request: HTTP2Server.Request

        var stream: Int32 { request.stream }
    }

    enum Event: Sendable, Hashable {
        case opened(Int)
        case closed(Int)
    }

    let loop: EventLoop
    nonisolated let arrivals = Mailbox<Arrival>()
    nonisolated let events = Mailbox<Event>()
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var listener: StreamListener?
    private var peers: [Peer] = []
    private var limits = HTTP2Server.Limits()
    /// If `policy` is set, the function handles all requests in place of the test.
    private var policy: (@Sendable (Arrival, StreamConnection, HTTP2Server) -> Void)?
    /// Whether the server answers all requests immediately.
    private var answersAll = false

    private final class Peer {
        let connection: StreamConnection
        var server: HTTP2Server?

        init(_ connection: StreamConnection) { self.connection = connection }
    }

    init(_ loop: EventLoop, streams: Int = 100, answersAll: Bool = false) {
        self.loop = loop
        limits.streams = streams
        self.answersAll = answersAll
    }

    /// Starts to listen, and returns the server's URL without a path.
    func listen(_ context: TLSContext, at endpoint: Endpoint = Endpoint(.loopbackV4, 0)) throws -> String {
        let listener = try StreamListener(boundTo: endpoint, on: loop, tls: context, limit: 100) { self.accept($0) }
        self.listener = listener
        return "https://\(listener.local)"
    }

    var connectionCount: Int { peers.count }

    func close() {
        listener = nil
        for peer in peers { peer.connection.close() }
        peers = []
    }

    func setPolicy(_ policy: @escaping @Sendable (Arrival, StreamConnection, HTTP2Server) -> Void) {
        self.policy = policy
    }

    // MARK: Called by the test

    func answer(
        _ arrival: Arrival, status: Int = 200, fields: [(name: String, value: String)] = [], body: String = "",
        trailers: [(name: String, value: String)] = [], endsWithHead: Bool = true
    ) {
        with(arrival.connection) {
            $0.answer(
                arrival.stream, status: status, fields: fields, body: Array(body.utf8), trailers: trailers,
                endsWithHead: endsWithHead)
        }
    }

    func hint(_ arrival: Arrival, status: Int) { with(arrival.connection) { $0.hint(arrival.stream, status: status) } }

    func reset(_ arrival: Arrival, _ code: HTTP2ErrorCode) {
        with(arrival.connection) { $0.reset(arrival.stream, code) }
    }

    func goAway(_ connection: Int, lastStream: Int32) {
        with(connection) { $0.goAway(lastStream: lastStream, reason: "{\"reason\":\"Shutdown\"}") }
    }

    func allow(streams: Int, on connection: Int) { with(connection) { $0.allow(streams: streams) } }

    func sendRaw(_ bytes: [UInt8], on connection: Int) { peers[connection].connection.send(bytes) }

    /// Closes the TCP connection without any HTTP/2 frame.
    func drop(_ connection: Int) { peers[connection].connection.close() }

    /// Stops reading from a connection, or resumes it if `isDeaf` is false.
    func setDeaf(_ isDeaf: Bool, _ connection: Int) {
        peers[connection].connection.setReading(!isDeaf)
    }

    private func with(_ connection: Int, _ body: (HTTP2Server) -> Void) {
        guard let server = peers[connection].server else { return }
        body(server)
        peers[connection].connection.send(server.takeOutput())
    }

    // MARK: Connections

    private func accept(_ connection: StreamConnection) {
        let peer = Peer(connection)
        let number = peers.count
        peers.append(peer)
        try? connection.start(
            StreamConnection.Handlers(
                connected: { connection in
                    guard connection.tls?.applicationProtocol == "h2" else { return }
                    peer.server = HTTP2Server(limits: self.limits)
                    if let output = peer.server?.takeOutput() { connection.send(output) }
                    self.events.put(.opened(number))
                },
                received: { connection, bytes in
                    guard let server = peer.server else { return bytes.count }
                    let goesOn = server.received(bytes)
                    for request in server.takeRequests() {
                        let arrival = Arrival(connection: number, request: request)
                        if let policy = self.policy {
                            policy(arrival, connection, server)
                            continue
                        }
                        self.arrivals.put(arrival)
                        if self.answersAll { server.answer(request.stream, status: 200) }
                    }
                    connection.send(server.takeOutput())
                    if !goesOn {
                        connection.close(flushing: true)
                        self.events.put(.closed(number))
                    }
                    return bytes.count
                },
                closed: { _, _ in self.events.put(.closed(number)) }))
    }
}
