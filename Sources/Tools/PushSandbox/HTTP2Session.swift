import HTTP2
import Reactor

/// The HTTP/2 of one connection. Lives on its connection's loop.
final class HTTP2Session {
    private let server: HTTP2Server
    let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    /// The limit that follows the first accepted push; `nil` once it is in force.
    private var laterLimit: Int?
    /// The first stream that a GOAWAY has refused. Requests from there on are not looked at.
    private var firstRefused = Int32.max
    /// Whether GOAWAY was sent. Then the client ends the connection when it has read all answers, which could be lost
    /// if we closed it.
    private var isLeaving = false
    /// Whether requests are being handed over. Answers that are given meanwhile are sent together.
    private var isTaking = false

    /// `received` gets each complete request with the number of the stream to answer on.
    init?(
        _ connection: StreamConnection, streams: StreamLimits = StreamLimits(),
        received: @escaping (SandboxRequest, Int32) -> Void
    ) {
        var limits = HTTP2Server.Limits()
        limits.streams = streams.first ?? streams.usual
        limits.head = SandboxRequest.headLimit
        limits.body = SandboxRequest.bodyLimit
        guard let server = HTTP2Server(limits: limits) else { return nil }
        self.server = server
        self.connection = connection
        self.received = received
        laterLimit = streams.first == nil ? nil : streams.usual
        flush()
    }

    /// Takes bytes of the connection.
    ///
    /// - Returns: whether the connection may go on. Otherwise it is closed after what waits was sent.
    func take(_ bytes: Span<UInt8>) -> Bool {
        let goesOn = server.received(bytes)
        isTaking = true
        for request in server.takeRequests() where connection.isOpen && request.stream < firstRefused {
            received(SandboxRequest(request, connection: connection.id), request.stream)
        }
        isTaking = false
        flush()
        return goesOn && (isLeaving || server.isWanted)
    }

    /// Answers on the stream that the request came on. Nothing happens if the stream is gone.
    func answer(_ answer: SandboxAnswer, on number: Int32) {
        guard server.isOpen(number) else { return }
        if let limit = laterLimit, (200..<300).contains(answer.status) {
            laterLimit = nil
            server.allow(streams: limit)
        }
        let fields = answer.headers.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
        server.answer(number, status: answer.status, fields: fields, body: answer.body)
        if !isTaking { flush() }
    }

    /// Tells the peer that no more requests are taken and, with a number, that the request on this stream was not
    /// looked at.
    func goAway(refusing number: Int32?) {
        isLeaving = true
        if let number { firstRefused = min(firstRefused, number) }
        // As APNs says it, with its reason. The streams behind the last one are refused by themselves.
        server.goAway(lastStream: number.map { max(0, $0 - 2) }, reason: "{\"reason\":\"Shutdown\"}")
        if !isTaking { flush() }
    }

    private func flush() {
        let output = server.takeOutput()
        if !output.isEmpty { connection.send(output) }
    }
}

extension SandboxRequest {
    fileprivate init(_ request: HTTP2Server.Request, connection: UInt64) {
        // What it is called in HTTP/1.1 is not among the fields.
        self.init(
            method: request.method, target: request.path, fields: [(":authority", request.authority)] + request.fields,
            body: request.body, version: "h2", connection: connection)
        isBodyCut = request.isBodyCut
        mayControl = false
        isSecure = true
    }
}
