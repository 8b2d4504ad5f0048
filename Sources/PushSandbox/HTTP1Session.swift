import HTTPServer
import Reactor
import Timekeeping

/// The server side of one HTTP/1.1 connection, which answers requests one at a time, in their order.
///
/// It is not an ``HTTPConnection``, because the version is only known after the handshake, and faults need the
/// connection. It lives on its connection's loop.
final class HTTP1Session: SandboxSession {
    private let connection: StreamConnection
    private let mayControl: Bool
    private var reader = HTTPRequestReader(headLimit: SandboxRequest.headLimit, bodyLimit: SandboxRequest.bodyLimit)
    /// What came behind the request that waits for its answer.
    private var pending: [UInt8] = []
    private var answering: HTTPRequestHead?
    private var isReading = false
    private let received: (SandboxRequest, Int32) -> Void

    private static let pendingLimit = 2 * (SandboxRequest.headLimit + SandboxRequest.bodyLimit)

    /// `received` gets each request; its number means nothing here.
    init(_ connection: StreamConnection, mayControl: Bool, received: @escaping (SandboxRequest, Int32) -> Void) {
        self.connection = connection
        self.mayControl = mayControl
        self.received = received
    }

    func take(_ bytes: Span<UInt8>) -> Bool {
        guard pending.count + bytes.count <= Self.pendingLimit else { return refuse(413) }
        for index in bytes.indices { pending.append(bytes[index]) }
        return readOn()
    }

    /// Hands out what is complete, until a request has to wait for its answer.
    private func readOn() -> Bool {
        isReading = true
        defer { isReading = false }
        var position = 0
        defer { pending.removeFirst(position) }
        while answering == nil, connection.isOpen {
            let bytes = pending
            switch reader.next(in: bytes.span, from: &position) {
            case .needsMore: return true
            case .wantsContinue: connection.send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
            case .fault(let fault): return refuse(fault.status)
            case .request(let head, let body):
                answering = head
                var request = SandboxRequest(
                    method: head.method, target: head.target, fields: head.fields.map { ($0.name, $0.value) },
                    body: body, version: "http/1.1", connection: connection.id)
                request.mayControl = mayControl
                received(request, 0)
            }
        }
        return true
    }

    func answer(_ answer: SandboxAnswer, on number: Int32) {
        guard let head = answering else { return }
        answering = nil
        let staysOpen = head.staysOpen && answer.fault == nil
        send(answer, staysOpen: staysOpen)
        guard staysOpen else { return connection.close(flushing: true) }
        // If `readOn` has handed the request out, it goes on by itself.
        if !isReading, !readOn() { connection.close(flushing: true) }
    }

    func goAway(refusing number: Int32?) {
        // An answer before this one may have closed the connection already, and may still be on its way.
        if connection.isOpen { connection.close(flushing: true) }
    }

    /// Answers by the status alone.
    ///
    /// - Returns: false, as the connection has to end.
    private func refuse(_ status: Int) -> Bool {
        send(SandboxAnswer(status: status), staysOpen: false)
        return false
    }

    private func send(_ answer: SandboxAnswer, staysOpen: Bool) {
        let fields = answer.headers.sorted { $0.key < $1.key }.map { HTTPField($0.key, $0.value) }
        let response = HTTPResponse(status: answer.status, fields: fields, body: answer.body)
        connection.send(response.bytes(at: SystemClock.moment.date, staysOpen: staysOpen))
    }
}
