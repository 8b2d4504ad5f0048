package import Addressing
package import Crypto
import HTTPServer
package import Reactor
import Timekeeping

/// Listens for pushes: HTTP/2 over TLS, and HTTP/1.1 on a plain port.
///
/// Lives on its loop.
package final class SandboxServer {
    private let loop: EventLoop
    private let semantics: ProviderSemantics
    private var listener: StreamListener?
    private var plain: HTTPListener?
    private var sessions: [UInt64: (StreamConnection, HTTP2Session)] = [:]

    package init(loop: EventLoop, semantics: ProviderSemantics) {
        self.loop = loop
        self.semantics = semantics
    }

    /// - Returns: where it listens, with the port the kernel chose for port 0.
    package func listen(tls endpoint: Endpoint, _ context: TLSContext) throws(SystemError) -> Endpoint {
        let made = try StreamListener(boundTo: endpoint, on: loop, tls: context, limit: 1000) {
            [weak self] connection in
            self?.accepted(connection)
        }
        listener = made
        return made.local
    }

    package func listen(plain endpoint: Endpoint) throws(SystemError) -> Endpoint {
        let made = try HTTPListener(on: loop) { [weak self] request, reply in
            guard let self else { return }
            let seen = SandboxRequest(
                method: request.method, target: request.target,
                headers: Dictionary(
                    request.fields.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { first, _ in first }),
                body: request.body, version: "http/1.1", connection: 0)
            let answer = semantics.answer(seen)
            later(answer.delay) {
                reply.send(
                    HTTPResponse(
                        status: answer.status, fields: answer.headers.map { HTTPField($0.key, $0.value) },
                        body: answer.body))
            }
        }
        plain = made
        return try made.listen(on: endpoint)
    }

    private func accepted(_ connection: StreamConnection) {
        let handlers = StreamConnection.Handlers(
            connected: { [weak self] connection in self?.connected(connection) },
            received: { [weak self] connection, bytes in
                if let session = self?.sessions[connection.id]?.1, !session.take(bytes) { self?.drop(connection) }
                return bytes.count
            }, closed: { [weak self] connection, _ in self?.sessions[connection.id] = nil })
        pending[connection.id] = connection
        do {
            try connection.start(handlers)
        } catch {
            pending[connection.id] = nil
        }
    }

    /// Accepted, TLS not yet established.
    private var pending: [UInt64: StreamConnection] = [:]

    private func connected(_ connection: StreamConnection) {
        pending[connection.id] = nil
        guard connection.tls?.applicationProtocol == "h2", let session = HTTP2Session(connection) else {
            return connection.close()
        }
        sessions[connection.id] = (connection, session)
        session.received = { [weak self, weak session] request, stream in
            guard let self, let session else { return }
            let answer = semantics.answer(request)
            later(answer.delay) { [weak self] in
                switch answer.fault {
                case .reset: self?.drop(connection)
                case .goaway:
                    session.answer(answer, on: stream)
                    session.goAway()
                case nil: session.answer(answer, on: stream)
                }
            }
        }
    }

    private func drop(_ connection: StreamConnection) {
        sessions[connection.id] = nil
        connection.close()
    }

    private var timers: [UInt64: LoopTimer] = [:]
    private var lastTimer: UInt64 = 0

    private func later(_ delay: Duration, _ job: @escaping () -> Void) {
        guard delay > .zero else { return job() }
        lastTimer += 1
        let number = lastTimer
        timers[number] = try? loop.schedule(at: SystemClock.now + delay) { [weak self] in
            self?.timers[number] = nil
            job()
        }
    }
}
