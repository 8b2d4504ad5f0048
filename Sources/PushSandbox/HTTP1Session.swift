import Reactor

/// The server side of one HTTP/1.1 connection; answers one request at a time, in their order.
///
/// Lives on its connection's loop.
final class HTTP1Session: SandboxSession {
    private let connection: StreamConnection
    private let mayControl: Bool
    private var reader = HTTP1Reader()
    private var isAnswering = false
    private var isReading = false
    private var staysOpen = true
    private let received: (SandboxRequest, Int32) -> Void

    /// `received` gets each request; its number means nothing here.
    init(_ connection: StreamConnection, mayControl: Bool, received: @escaping (SandboxRequest, Int32) -> Void) {
        self.connection = connection
        self.mayControl = mayControl
        self.received = received
    }

    func take(_ bytes: Span<UInt8>) -> Bool {
        do throws(HTTP1Reader.Fault) {
            try reader.append(bytes)
        } catch {
            return refuse(error)
        }
        return readOn()
    }

    /// Hands out what is complete, until a request has to wait for its answer.
    private func readOn() -> Bool {
        isReading = true
        defer { isReading = false }
        do throws(HTTP1Reader.Fault) {
            while !isAnswering, connection.isOpen, let request = try reader.next() {
                isAnswering = true
                staysOpen = request.staysOpen
                var seen = SandboxRequest(
                    method: request.method, target: request.target, headers: request.headers, body: request.body,
                    version: "http/1.1", connection: connection.id)
                seen.repeatedHeaders = request.repeatedHeaders
                seen.mayControl = mayControl
                received(seen, 0)
            }
            return true
        } catch {
            return refuse(error)
        }
    }

    func answer(_ answer: SandboxAnswer, on number: Int32) {
        guard isAnswering else { return }
        isAnswering = false
        send(answer)
        guard staysOpen, answer.fault == nil else { return connection.close(flushing: true) }
        // The loop that handed the request out goes on by itself.
        if !isReading, !readOn() { connection.close(flushing: true) }
    }

    func goAway(refusing number: Int32?) {
        // An answer before it has closed already, and is still being sent.
        if connection.isOpen { connection.close(flushing: true) }
    }

    /// Answers by the status alone.
    ///
    /// - Returns: false, as the connection has to end.
    private func refuse(_ fault: HTTP1Reader.Fault) -> Bool {
        staysOpen = false
        send(SandboxAnswer(status: fault.status))
        return false
    }

    private func send(_ answer: SandboxAnswer) {
        var head = "HTTP/1.1 \(answer.status) \(Self.phrase(for: answer.status))\r\n"
        for (name, value) in answer.headers.sorted(by: { $0.key < $1.key }) { head += "\(name): \(value)\r\n" }
        // RFC 9110 section 8.6: not with 204.
        if answer.status != 204 { head += "content-length: \(answer.body.count)\r\n" }
        if !staysOpen || answer.fault != nil { head += "connection: close\r\n" }
        connection.send(Array((head + "\r\n").utf8) + answer.body)
    }

    private static func phrase(for status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 429: "Too Many Requests"
        case 500: "Internal Server Error"
        case 503: "Service Unavailable"
        default: "Other"
        }
    }
}
