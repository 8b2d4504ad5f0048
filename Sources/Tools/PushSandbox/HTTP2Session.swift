import HTTP2
import Reactor

/// The HTTP/2 session of one connection to the push sandbox. Only its connection's event loop uses the session.
final class HTTP2Session {
    private let server: HTTP2Server
    let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    /// The maximum number of streams after the first accepted push; `nil` if it applies already.
    private var laterLimit: Int?
    /// The id of the first HTTP/2 stream that a GOAWAY refused. Requests on the refused stream and later streams are
    /// not processed.
    private var firstRefused = Int32.max
    /// Whether the sandbox has sent a GOAWAY. The client closes the connection when it has read all answers, so that no
    /// answer is lost.
    private var isLeaving = false
    /// Whether the session is passing requests to `received` now, and collects their answers.
    private var isTaking = false

    /// Starts an HTTP/2 session; `received` gets each complete request with the id of its stream.
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
    /// - Returns: false if the connection must be closed after all output was sent.
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

    /// Sends an answer on its request's stream, unless the stream was closed.
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

    /// Sends a GOAWAY, so that the client sends no more requests on the connection. If `number` is given, the request
    /// on this stream was not processed.
    func goAway(refusing number: Int32?) {
        isLeaving = true
        if let number { firstRefused = min(firstRefused, number) }
        // The GOAWAY contains a reason, as Apple's does, and refuses all streams after the last processed stream.
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
        // The host is added separately, because the array `fields` has no `:authority`.
        self.init(
            method: request.method, target: request.path, fields: [(":authority", request.authority)] + request.fields,
            body: request.body, version: "h2", connection: connection)
        isBodyCut = request.isBodyCut
        mayControl = false
        isSecure = true
    }
}
