import HTTP2
import Reactor

/// The HTTP/2 session of one connection. The session is used on the event loop of its connection only.
final class HTTP2Session {
    private let server: HTTP2Server
    let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    /// The maximum number of streams that applies after the first accepted push; `nil` if it applies already.
    private var laterLimit: Int?
    /// The id of the first stream that a GOAWAY refused. Requests on this stream and on later streams are not
    /// processed.
    private var firstRefused = Int32.max
    /// Whether a GOAWAY was sent. After a GOAWAY, the client closes the connection when it has read all answers. If the
    /// sandbox closed the connection, answers could get lost.
    private var isLeaving = false
    /// Whether requests are being passed to `received` now. Answers to these requests are sent together afterwards.
    private var isTaking = false

    /// Starts an HTTP/2 session. `received` gets each complete request and the id of its stream.
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

    /// Processes bytes that the client has sent.
    ///
    /// - Returns: whether the connection may continue. If the result is false, the connection must be closed after all
    ///   output was sent.
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

    /// Sends an answer on the stream of its request, unless the stream was closed.
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

    /// Sends a GOAWAY, so that the client sends no more requests on this connection. If `number` is given, the request
    /// on this stream was not processed.
    func goAway(refusing number: Int32?) {
        isLeaving = true
        if let number { firstRefused = min(firstRefused, number) }
        // The GOAWAY contains a reason, like a GOAWAY from Apple, and refuses all streams after the last stream that
        // was processed.
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
        // `fields` does not contain the pseudo-header field `:authority`, so the host is added here.
        self.init(
            method: request.method, target: request.path, fields: [(":authority", request.authority)] + request.fields,
            body: request.body, version: "h2", connection: connection)
        isBodyCut = request.isBodyCut
        mayControl = false
        isSecure = true
    }
}
