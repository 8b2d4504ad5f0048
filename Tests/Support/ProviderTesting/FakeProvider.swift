package import Addressing
package import Crypto
package import LoopTesting
package import Reactor

/// An HTTP/1.1 server whose answers the test chooses, and which reports its requests.
package actor FakeProvider {
    package struct Request: Sendable {
        /// The whole text of the request.
        package let text: String
        package let path: String
        /// The header fields of the request, with names in lower case.
        package let headers: [String: String]
        package let body: String
    }

    package enum Reply: Sendable {
        case answer(Int, String = "", headers: String = "")
        /// The given bytes, whether or not they are a valid response.
        case bytes(String, closes: Bool = false)
        case silence
        case close
    }

    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    /// All requests in the order of their arrival.
    package nonisolated let requests = Mailbox<Request>()
    private let reply: @Sendable (Request, Int) -> Reply
    private var count = 0
    /// The number of connections that were opened so far.
    package private(set) var connectionCount = 0
    private var listener: StreamListener?
    private var connections: [UInt64: StreamConnection] = [:]

    /// Makes a server. The function `reply` gets each request, and the number of requests before it.
    package init(_ loop: EventLoop, reply: @escaping @Sendable (Request, Int) -> Reply) {
        self.loop = loop
        self.reply = reply
    }

    /// Starts to listen, and returns the beginning of the server's URL.
    package func listen(at address: IPAddress = .loopbackV4, tls: TLSContext? = nil) throws -> String {
        let listener = try StreamListener(boundTo: Endpoint(address, 0), on: loop, tls: tls, limit: 100) {
            self.accept($0)
        }
        self.listener = listener
        return "\(tls == nil ? "http" : "https")://\(listener.local)"
    }

    package func listen(unixPath: String) throws {
        listener = try StreamListener(unixPath: unixPath, on: loop, limit: 100) { self.accept($0) }
    }

    package func requestCount() -> Int { count }

    package func close() {
        listener = nil
        for connection in connections.values { connection.close() }
        connections = [:]
    }

    private func accept(_ connection: StreamConnection) {
        connections[connection.id] = connection
        connectionCount += 1
        try? connection.start(
            StreamConnection.Handlers(
                connected: { _ in },
                received: { connection, bytes in
                    let text = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
                    guard let request = Request(text) else { return 0 }
                    self.received(request, on: connection)
                    return bytes.count
                },
                closed: { connection, _ in self.connections[connection.id] = nil }))
    }

    private func received(_ request: Request, on connection: StreamConnection) {
        let reply = reply(request, count)
        count += 1
        switch reply {
        case .answer(let status, let body, let headers):
            let text = "HTTP/1.1 \(status) X\r\n\(headers)content-length: \(body.utf8.count)\r\n\r\n\(body)"
            connection.send(Array(text.utf8))
        case .bytes(let text, let closes):
            connection.send(Array(text.utf8))
            if closes { connection.close(flushing: true) }
        case .silence: break
        case .close: connection.close()
        }
        requests.put(request)
    }
}

extension FakeProvider.Request {
    /// Reads an HTTP request; `nil` if it is incomplete.
    init?(_ text: String) {
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let lines = parts[0].split(separator: "\r\n")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let pair = line.split(separator: ":", maxSplits: 1)
            headers[pair[0].lowercased()] = pair.count == 2 ? String(pair[1].drop { $0 == " " }) : ""
        }
        guard parts[1].utf8.count >= headers["content-length"].flatMap({ Int($0) }) ?? 0 else { return nil }
        self.text = text
        path = lines.first.map { String($0.split(separator: " ")[1]) } ?? ""
        self.headers = headers
        body = String(parts[1])
    }
}
