package import Addressing
package import Crypto
package import Reactor
import Timekeeping

/// How many requests of a connection may be open at a time (HTTP/2's SETTINGS_MAX_CONCURRENT_STREAMS).
package struct StreamLimits: Hashable, Sendable {
    package var usual: Int
    /// The limit until the first push of the connection is accepted, which is 1 for APNs; `nil` for the usual limit.
    package var first: Int?

    package init(usual: Int = 256, first: Int? = nil) {
        self.usual = usual
        self.first = first
    }
}

/// Listens for pushes: HTTP/2 over TLS, HTTP/1.1 over TLS for clients that do not offer `h2`, and HTTP/1.1 on a plain
/// port, where the control resources are.
///
/// It lives on its loop.
package final class SandboxServer {
    private let loop: EventLoop
    private let semantics: ProviderSemantics
    private let streams: StreamLimits
    private var listeners: [StreamListener] = []

    /// How many connections are open.
    package var connectionCount: Int { listeners.reduce(0) { $0 + $1.connectionCount } }
    private var peers: [UInt64: Peer] = [:]
    private var timers: [UInt64: LoopTimer] = [:]
    private var lastTimer: UInt64 = 0

    private struct Peer {
        let connection: StreamConnection
        let isPlain: Bool
        /// `nil` until TLS is established.
        var session: (any SandboxSession)?
    }

    private static let connectionLimit = 1000
    /// How long a connection may be idle. Connections to providers stay open for long.
    private static let idleTimeout: Duration = .seconds(3600)
    private static let delayLimit = 10_000
    /// How much may wait to be sent. The list of all pushes may be long.
    private static let outputLimit = 256 << 20

    package init(loop: EventLoop, semantics: ProviderSemantics, streams: StreamLimits = StreamLimits()) {
        self.loop = loop
        self.semantics = semantics
        self.streams = streams
    }

    deinit {
        for peer in peers.values { peer.connection.close() }
    }

    /// - Returns: where it listens, with the port the kernel chose for port 0.
    package func listen(tls endpoint: Endpoint, _ context: TLSContext) throws(SystemError) -> Endpoint {
        try listen(endpoint, context)
    }

    package func listen(plain endpoint: Endpoint) throws(SystemError) -> Endpoint { try listen(endpoint, nil) }

    private func listen(_ endpoint: Endpoint, _ context: TLSContext?) throws(SystemError) -> Endpoint {
        let isPlain = context == nil
        var limits = StreamConnection.Limits()
        limits.output = Self.outputLimit
        let made = try StreamListener(
            boundTo: endpoint, on: loop, tls: context, limit: Self.connectionLimit, connectionLimits: limits
        ) { [weak self] connection in self?.accepted(connection, isPlain: isPlain) }
        listeners.append(made)
        return made.local
    }

    // MARK: Connections

    private func accepted(_ connection: StreamConnection, isPlain: Bool) {
        let handlers = StreamConnection.Handlers(
            connected: { [weak self] connection in self?.connected(connection) },
            received: { [weak self] connection, bytes in
                if let session = self?.peers[connection.id]?.session, !session.take(bytes) {
                    self?.drop(connection, flushing: true)
                }
                return bytes.count
            }, closed: { [weak self] connection, _ in self?.peers[connection.id] = nil })
        peers[connection.id] = Peer(connection: connection, isPlain: isPlain)
        do {
            try connection.start(handlers)
        } catch {
            peers[connection.id] = nil
        }
    }

    private func connected(_ connection: StreamConnection) {
        guard let isPlain = peers[connection.id]?.isPlain else { return }
        connection.setIdleTimeout(Self.idleTimeout)
        let id = connection.id
        let received = { [weak self] (request: SandboxRequest, stream: Int32) -> Void in
            self?.received(request, from: id, on: stream)
        }
        if connection.tls?.applicationProtocol == "h2" {
            guard let session = HTTP2Session(connection, streams: streams, received: received) else {
                return drop(connection)
            }
            peers[id]?.session = session
        } else {
            peers[id]?.session = HTTP1Session(connection, mayControl: isPlain, received: received)
        }
    }

    private func drop(_ connection: StreamConnection, flushing: Bool = false) {
        peers[connection.id] = nil
        connection.close(flushing: flushing)
    }

    // MARK: Requests

    private func received(_ request: SandboxRequest, from id: UInt64, on stream: Int32) {
        var request = request
        request.isSecure = peers[id]?.isPlain == false
        let answer = semantics.answer(request)
        after(answer.delay) { [weak self] in self?.give(answer, to: id, on: stream) }
    }

    private func give(_ answer: SandboxAnswer, to id: UInt64, on stream: Int32) {
        guard let peer = peers[id], let session = peer.session else { return }
        switch answer.fault {
        case .reset: drop(peer.connection)
        case .goaway:
            if answer.status != 0 { session.answer(answer, on: stream) }
            session.goAway(refusing: answer.status == 0 ? stream : nil)
        case nil: session.answer(answer, on: stream)
        }
        // A session of HTTP/1.1 closes its connection itself, and nobody is told.
        if !peer.connection.isOpen { peers[id] = nil }
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
