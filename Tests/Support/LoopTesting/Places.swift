package import Addressing
package import Crypto
package import Reactor
import ScenarioReplay
import Testing

/// Phones, PBXs and other peers on real sockets, each with a name. Each message is reported with the name of its
/// receiver.
package actor Places {
    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var sockets: [String: UDPSocket] = [:]
    private var listeners: [StreamListener] = []
    private var reserved: [ReservedPort] = []
    private var connections: [StreamConnection] = []
    private var phones: [String: StreamConnection] = [:]
    /// The WebSocket state of each peer that is a browser.
    private var browsers: [String: WebSocketFrames] = [:]
    package nonisolated let messages = Mailbox<(place: String, text: String)>()
    package nonisolated let closed = Mailbox<String>()

    package init(_ loop: EventLoop) { self.loop = loop }

    package func udp(_ name: String, at endpoint: Endpoint = Endpoint(.loopbackV4, 0)) throws -> Endpoint {
        let socket = try UDPSocket(boundTo: endpoint, on: loop)
        let messages = messages
        try socket.receive { batch in
            for index in 0..<batch.count {
                messages.put((name, batch.withBytes(at: index) { bytes in Self.text(bytes) }))
            }
        }
        sockets[name] = socket
        return socket.local
    }

    package func tcp(_ name: String, at endpoint: Endpoint = Endpoint(.loopbackV4, 0)) throws -> Endpoint {
        let listener = try StreamListener(boundTo: endpoint, on: loop, limit: 100) { [weak self] stream in
            self?.assumeIsolated { $0.accepted(stream, at: name) }
        }
        listeners.append(listener)
        return listener.local
    }

    private func accepted(_ stream: StreamConnection, at name: String) {
        connections.append(stream)
        messages.put((name, "connection"))
        try? stream.start(handlers(name))
    }

    /// Connects a peer to the daemon.
    ///
    /// - Parameters:
    ///   - name: the name of the phone.
    ///   - target: the daemon's address, which its certificate must name.
    ///   - tls: the phone's TLS context, if any.
    ///   - isBrowser: whether the phone uses WebSocket; the head of the HTTP answer is then its first message, before
    ///     which it must send nothing.
    /// - Throws: an error if no socket could be created.
    package func connect(
        _ name: String, to target: Endpoint, tls: TLSContext? = nil, isBrowser: Bool = false
    ) throws {
        if isBrowser { browsers[name] = WebSocketFrames() }
        let phone = try StreamConnection.connect(
            to: target, on: loop, tls: try tls?.makeClientSession(host: "\(target.address)"), handlers: handlers(name))
        if isBrowser { phone.send(WebSocketFrames.handshake(host: "\(target)")) }
        phones[name] = phone
    }

    private func handlers(_ name: String) -> StreamConnection.Handlers {
        let (messages, closed) = (messages, closed)
        return StreamConnection.Handlers(
            connected: { _ in },
            received: { [weak self] _, bytes in
                if let whole = self?.assumeIsolated({ $0.browsers[name]?.messages(in: bytes.indices.map { bytes[$0] }) }
                ) {
                    for message in whole { messages.put((name, String(decoding: message, as: UTF8.self))) }
                } else {
                    messages.put((name, Self.text(bytes)))
                }
                return bytes.count
            }, closed: { _, _ in closed.put(name) })
    }

    package func send(_ bytes: [UInt8], from name: String, to target: Endpoint) {
        guard let phone = phones[name] else { return sockets[name]?.queue(bytes, to: target) ?? () }
        phone.send(browsers[name] == nil ? bytes : WebSocketFrames.frame(bytes))
    }

    /// Sends all messages in one iteration of the loop.
    package func sendTogether(_ messages: [[UInt8]], from name: String, to target: Endpoint) {
        for message in messages { send(message, from: name, to: target) }
    }

    package func hangUp(_ name: String) { phones.removeValue(forKey: name)?.close() }

    /// Waits for the next message to the given peer that begins with `start`. The test fails if one of the peers in
    /// `never` gets a message.
    package nonisolated func message(_ start: String, at place: String, never: Set<String> = []) async throws -> String
    {
        while true {
            let (at, text) = try await messages.next()
            #expect(!never.contains(at), "\(at) got \(text.prefix(60))")
            if at == place, text.hasPrefix(start) { return text }
        }
    }

    /// Collects the text that the given peer receives from now on, until it contains `part`. The test fails if one of
    /// the peers in `never` gets a message.
    package nonisolated func text(until part: String, at place: String, never: Set<String> = []) async throws -> String
    {
        var all = ""
        while !all.contains(part) {
            let (at, text) = try await messages.next()
            #expect(!never.contains(at), "\(at) got \(text.prefix(60))")
            if at == place { all += text }
        }
        return all
    }

    /// Returns a free port, which stays reserved until the ``Places`` are closed. The test must choose the port,
    /// because a daemon cannot report the TCP port that the kernel gave it.
    package func freePort() throws -> Endpoint {
        guard let port = ReservedPort.any() else { throw NoPort() }
        reserved.append(port)
        return Endpoint(.loopbackV4, port.number)
    }

    private struct NoPort: Error {}

    package func close() {
        for socket in sockets.values { socket.close() }
        sockets = [:]
        listeners = []
        connections = []
        phones = [:]
        browsers = [:]
        reserved = []
    }

    private static func text(_ bytes: Span<UInt8>) -> String {
        unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }
}
