import HTTP2
import Reactor

/// The HTTP/2 session of one connection. Used only on its connection's loop.
final class HTTP2Session {
    private let server: HTTP2Server
    let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    /// The limit of streams that applies after the first accepted push; `nil` once it applies.
    private var laterLimit: Int?
    /// The first stream that a GOAWAY refused. Requests on this stream and on later ones are not processed.
    private var firstRefused = Int32.max
    /// Whether a GOAWAY was sent. The sandbox then leaves the connection open, because answers could be lost if it
    /// closed it. The client closes it after reading all answers.
    private var isLeaving = false
    /// Whether requests are being handed over. Answers that are given meanwhile are sent together.
    private var isTaking = false

    /// Starts a session. `received` gets each complete request with the number of its stream.
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
    /// - Returns: whether the connection may continue. If not, it is closed when the waiting output is sent.
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

    /// Answers on the stream of the request. Does nothing if the stream was closed.
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

    /// Notifies the client that no more requests are accepted. With a number, the request on this stream counts as not
    /// processed.
    func goAway(refusing number: Int32?) {
        isLeaving = true
        if let number { firstRefused = min(firstRefused, number) }
        // The GOAWAY has the form of APNs, with a reason. Streams after the last one are refused implicitly.
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
        // `fields` does not include the pseudo-fields of HTTP/2, so `:authority` is added.
        self.init(
            method: request.method, target: request.path, fields: [(":authority", request.authority)] + request.fields,
            body: request.body, version: "h2", connection: connection)
        isBodyCut = request.isBodyCut
        mayControl = false
        isSecure = true
    }
}
