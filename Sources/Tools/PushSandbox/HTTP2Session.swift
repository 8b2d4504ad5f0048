import HTTP2
import Reactor

/// The HTTP/2 session of one connection. The session is used only on its connection's loop.
final class HTTP2Session {
    private let server: HTTP2Server
    let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    /// The maximum number of streams after the first accepted push; `nil` if this limit already applies.
    private var laterLimit: Int?
    /// The first stream that a GOAWAY refused. Requests on this stream and later streams are not processed.
    private var firstRefused = Int32.max
    /// Whether a GOAWAY was sent. The sandbox does not close the connection after it, because that could lose answers.
    /// The client closes the connection when it has read all answers.
    private var isLeaving = false
    /// Whether the session is currently passing requests to their receiver. Answers that are given meanwhile are sent
    /// together.
    private var isTaking = false

    /// Starts a session. `received` gets each complete request and its stream id.
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

    /// Processes received bytes.
    ///
    /// - Returns: whether the connection may continue. If the result is false, the connection is closed when the
    ///   waiting output is sent.
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

    /// Sends an answer on the stream of its request. If the stream was closed, the function does nothing.
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

    /// Tells the client that the server accepts no more requests. If a stream id is given, the request on this stream
    /// counts as not processed.
    func goAway(refusing number: Int32?) {
        isLeaving = true
        if let number { firstRefused = min(firstRefused, number) }
        // The GOAWAY has the form of Apple's, with a reason. The GOAWAY also refuses all streams after the last
        // processed stream.
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
        // `fields` contains no pseudo-header fields of HTTP/2, so the host in `:authority` is added.
        self.init(
            method: request.method, target: request.path, fields: [(":authority", request.authority)] + request.fields,
            body: request.body, version: "h2", connection: connection)
        isBodyCut = request.isBodyCut
        mayControl = false
        isSecure = true
    }
}
