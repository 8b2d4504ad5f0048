package import Addressing
package import Crypto
import HTTPSemantics
import HTTPServer
package import Reactor
import Timekeeping

/// The maximum number of simultaneous requests on one HTTP/2 connection (SETTINGS_MAX_CONCURRENT_STREAMS).
package struct StreamLimits: Hashable, Sendable {
    package var usual: Int
    /// The maximum before the connection's first accepted push; Apple's servers allow 1. With `nil`, `usual` applies
    /// from the start.
    package var first: Int?

    package init(usual: Int = 256, first: Int? = nil) {
        self.usual = usual
        self.first = first
    }
}

/// Listens for pushes on two ports. The TLS port serves HTTP/2, and HTTP/1.1 for clients that do not offer `h2`. The
/// port without TLS serves HTTP/1.1 and the control resources.
///
/// Only its event loop uses the server.
package final class SandboxServer {
    private let loop: EventLoop
    private let semantics: ProviderSemantics
    private let streams: StreamLimits
    /// The listeners of both ports, which pass connections with HTTP/2 to an ``HTTP2Session``.
    private var listeners: [HTTPListener] = []
    /// The HTTP/2 sessions, by the id of their connection.
    private var sessions: [UInt64: HTTP2Session] = [:]
    private var timers: [UInt64: LoopTimer] = [:]
    private var lastTimer: UInt64 = 0
    /// How far the `Date` of answers is ahead of the real time, for tests of wrong clocks.
    private let clockLead: Duration

    /// The number of open connections, with HTTP/1.1 or HTTP/2.
    package var connectionCount: Int { listeners.reduce(sessions.count) { $0 + $1.connectionCount } }

    private static let sessionLimit = 1000
    /// How long a connection without requests stays open; clients keep connections to push providers open.
    private static let idleTimeout: Duration = .seconds(3600)
    private static let delayLimit = 10_000

    package init(
        loop: EventLoop, semantics: ProviderSemantics, streams: StreamLimits = StreamLimits(),
        clockLead: Duration = .zero
    ) {
        self.clockLead = clockLead
        self.loop = loop
        self.semantics = semantics
        self.streams = streams
    }

    deinit {
        for listener in listeners { listener.close() }
        for session in sessions.values { session.connection.close() }
    }

    /// Starts to listen for HTTPS on an address.
    ///
    /// - Returns: the address, with the port that the kernel has chosen for port 0.
    package func listen(tls endpoint: Endpoint, _ context: TLSContext) throws(SystemError) -> Endpoint {
        try listen(endpoint, context)
    }

    package func listen(plain endpoint: Endpoint) throws(SystemError) -> Endpoint { try listen(endpoint, nil) }

    private func listen(_ endpoint: Endpoint, _ context: TLSContext?) throws(SystemError) -> Endpoint {
        let isSecure = context != nil
        var limits = HTTPListener.Limits()
        limits.head = SandboxRequest.headLimit
        limits.body = SandboxRequest.bodyLimit
        limits.idleTimeout = Self.idleTimeout
        let listener = try HTTPListener(on: loop, limits: limits) { [weak self] request, reply in
            self?.received(SandboxRequest(request, isSecure: isSecure)) { reply.give($0) }
        }
        listener.clockLead = clockLead
        listener.give("h2") { [weak self] stream in self?.serve(stream) }
        let bound = try listener.listen(on: endpoint, tls: context)
        listeners.append(listener)
        return bound
    }

    // MARK: HTTP/2

    private func serve(_ connection: StreamConnection) {
        let id = connection.id
        guard sessions.count < Self.sessionLimit,
            let session = HTTP2Session(
                connection, streams: streams,
                received: { [weak self] request, stream in
                    self?.received(request) { self?.give($0, to: id, on: stream) }
                })
        else { return connection.close() }
        sessions[id] = session
        connection.setIdleTimeout(Self.idleTimeout)
        connection.handOver(
            to: StreamConnection.Handlers(
                connected: { _ in },
                received: { [weak self] connection, bytes in
                    if let session = self?.sessions[connection.id], !session.take(bytes) {
                        self?.drop(session, flushing: true)
                    }
                    return bytes.count
                }, closed: { [weak self] connection, _ in self?.sessions[connection.id] = nil }), unread: [])
    }

    private func drop(_ session: HTTP2Session, flushing: Bool = false) {
        sessions[session.connection.id] = nil
        session.connection.close(flushing: flushing)
    }

    private func give(_ answer: SandboxAnswer, to id: UInt64, on stream: Int32) {
        guard let session = sessions[id] else { return }
        var answer = answer
        answer.headers["date"] = (loop.moment.date + clockLead).civil.headerText
        switch answer.fault {
        case .reset: drop(session)
        case .goaway:
            if answer.status != 0 { session.answer(answer, on: stream) }
            session.goAway(refusing: answer.status == 0 ? stream : nil)
        case nil: session.answer(answer, on: stream)
        }
    }

    // MARK: Requests

    private func received(_ request: SandboxRequest, _ give: @escaping (SandboxAnswer) -> Void) {
        let answer = semantics.answer(request)
        after(answer.delay) { give(answer) }
    }

    private func after(_ delay: Duration, _ job: @escaping () -> Void) {
        guard delay > .zero, timers.count < Self.delayLimit else { return job() }
        lastTimer += 1
        let number = lastTimer
        do throws(SystemError) {
            timers[number] = try loop.schedule(at: loop.now + delay) { [weak self] in
                self?.timers[number] = nil
                job()
            }
        } catch {
            job()
        }
    }
}

extension HTTPReply {
    /// Sends an answer over HTTP/1.1. If the answer's status is 0, the connection is closed instead. If the answer's
    /// fault is `goaway`, the connection ends after the answer.
    fileprivate func give(_ answer: SandboxAnswer) {
        guard answer.fault != .reset, answer.status != 0 else { return hangUp() }
        let fields = answer.headers.sorted { $0.key < $1.key }.map { HTTPField($0.key, $0.value) }
        var response = HTTPResponse(status: answer.status, fields: fields, body: answer.body)
        response.endsConnection = answer.fault != nil
        send(response)
    }
}

extension SandboxRequest {
    fileprivate init(_ request: HTTPRequest, isSecure: Bool) {
        self.init(
            method: request.method, target: request.target, fields: request.fields.map { ($0.name, $0.value) },
            body: request.body, version: "http/1.1", connection: request.connection)
        self.isSecure = isSecure
        mayControl = !isSecure
    }
}
