import Addressing
package import LoopTesting
package import Reactor

/// An HTTP proxy for CONNECT, on a real socket. The proxy connects all clients to one server, whatever name they ask
/// for, or misbehaves as the test requires.
package actor FakeProxy {
    package enum Behaviour: Sendable {
        /// Connects clients to the requested port on the loopback address.
        case leads
        /// The proxy connects clients whose request has the given `user:password` in base64, and answers other requests
        /// with 407.
        case wants(String)
        case answers(String)
        /// Accepts connections, and never sends anything.
        case hangs
        case closes
        /// Sends the given number of bytes of a response head, and never its end.
        case longHead(Int)
        /// Sends the 200 byte by byte, so that the last packet can also contain the server's first bytes.
        case dribbles
    }

    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    /// The heads of the proxy's requests.
    package nonisolated let requests = Mailbox<String>()
    package private(set) var requestCount = 0
    package private(set) var connectionCount = 0
    private var behaviour: Behaviour
    private var listener: StreamListener?
    private var streams: [UInt64: StreamConnection] = [:]
    /// For each connection of a tunnel, the connection at the other end.
    private var partners: [UInt64: UInt64] = [:]

    package init(_ loop: EventLoop, _ behaviour: Behaviour = .leads) {
        self.loop = loop
        self.behaviour = behaviour
    }

    /// Starts to listen, and returns the port.
    package func listen() throws -> UInt16 {
        let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: loop, limit: 100) { self.accept($0) }
        self.listener = listener
        return listener.local.port
    }

    package func behave(_ behaviour: Behaviour) { self.behaviour = behaviour }

    package func close() {
        listener = nil
        for stream in streams.values { stream.close() }
        streams = [:]
        partners = [:]
    }

    private func accept(_ stream: StreamConnection) {
        streams[stream.id] = stream
        connectionCount += 1
        try? stream.start(handlers())
        if case .closes = behaviour { drop(stream.id) }
    }

    private func handlers() -> StreamConnection.Handlers {
        StreamConnection.Handlers(
            connected: { _ in },
            received: { stream, bytes in
                let bytes = bytes.indices.map { bytes[$0] }
                if let partner = self.partners[stream.id] {
                    self.streams[partner]?.send(bytes)
                    return bytes.count
                }
                let text = String(decoding: bytes, as: UTF8.self)
                guard text.hasSuffix("\r\n\r\n") else { return 0 }
                self.asked(text, on: stream)
                return bytes.count
            }, closed: { stream, _ in self.drop(stream.id) })
    }

    private func drop(_ id: UInt64) {
        streams.removeValue(forKey: id)?.close(flushing: true)
        if let partner = partners.removeValue(forKey: id) {
            partners[partner] = nil
            drop(partner)
        }
    }

    private func asked(_ head: String, on stream: StreamConnection) {
        requestCount += 1
        requests.put(head)
        switch behaviour {
        case .leads, .dribbles: lead(head, stream)
        case .wants(let login):
            if head.contains("\r\nProxy-Authorization: Basic \(login)\r\n") { return lead(head, stream) }
            stream.send(
                Array("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 2\r\n\r\nno".utf8))
        case .answers(let text):
            stream.send(Array(text.utf8))
        case .hangs, .closes: break
        case .longHead(let count):
            stream.outputLimit = .max
            stream.send(Array("HTTP/1.1 200 OK\r\n".utf8))
            let line = Array("x-filler: \(String(repeating: "x", count: 980))\r\n".utf8)
            for _ in 0..<count / line.count { stream.send(line) }
        }
    }

    private func lead(_ head: String, _ stream: StreamConnection) {
        let words = head.split(separator: " ")
        guard words.count > 2, let colon = words[1].lastIndex(of: ":"),
            let port = UInt16(words[1][words[1].index(after: colon)...])
        else { return drop(stream.id) }
        let server = try? StreamConnection.connect(
            to: Endpoint(.loopbackV4, port), on: loop, handlers: handlers())
        guard let server else { return drop(stream.id) }
        streams[server.id] = server
        partners[stream.id] = server.id
        partners[server.id] = stream.id
        let answer = Array("HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n".utf8)
        guard case .dribbles = behaviour else { return stream.send(answer) }
        for byte in answer { stream.send([byte]) }
    }
}
