import Addressing
import Crypto
import LoopTesting
import Reactor

/// A server that answers each request with the next bytes of a script, right or wrong.
actor ScriptedServer {
    enum Step: Sendable {
        case answer(String)
        case answerAndClose(String)
        case close
        case silence
    }

    let loop: EventLoop
    nonisolated let requests = Mailbox<String>()
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var script: [Step]
    private var listener: StreamListener?
    private var connections: [UInt64: StreamConnection] = [:]
    private(set) var connectionCount = 0

    init(_ loop: EventLoop, _ script: [Step]) {
        self.loop = loop
        self.script = script
    }

    /// Gives the URL's beginning.
    func listen(tls: TLSContext? = nil) throws -> String {
        let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: tls, limit: 100) {
            self.accept($0)
        }
        self.listener = listener
        return "\(tls == nil ? "http" : "https")://\(listener.local)"
    }

    func listen(unixPath: String) throws {
        listener = try StreamListener(unixPath: unixPath, on: loop, limit: 100) { self.accept($0) }
    }

    private func accept(_ connection: StreamConnection) {
        connectionCount += 1
        connections[connection.id] = connection
        try? connection.start(
            StreamConnection.Handlers(
                connected: { _ in },
                received: { connection, bytes in
                    let text = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
                    guard self.isComplete(text) else { return 0 }
                    self.requests.put(text)
                    self.perform(on: connection)
                    return bytes.count
                },
                closed: { connection, _ in self.connections[connection.id] = nil }))
    }

    private func isComplete(_ text: String) -> Bool {
        guard let end = text.utf8Index(after: "\r\n\r\n") else { return false }
        let length = text.lowercased().split(separator: "\r\n")
            .first { $0.hasPrefix("content-length: ") }.flatMap { Int($0.dropFirst(16)) }
        return text.utf8.count - end >= length ?? 0
    }

    private func perform(on connection: StreamConnection) {
        guard !script.isEmpty else { return }
        switch script.removeFirst() {
        case .answer(let text): connection.send(Array(text.utf8))
        case .answerAndClose(let text):
            connection.send(Array(text.utf8))
            connection.close(flushing: true)
        case .close: connection.close()
        case .silence: break
        }
    }

    func close() {
        listener = nil
        for connection in connections.values { connection.close() }
        connections = [:]
    }
}

extension String {
    /// The number of bytes up to and including the text.
    func utf8Index(after text: String) -> Int? {
        let (bytes, wanted) = (Array(utf8), Array(text.utf8))
        guard bytes.count >= wanted.count else { return nil }
        for start in 0...(bytes.count - wanted.count) where Array(bytes[start..<start + wanted.count]) == wanted {
            return start + wanted.count
        }
        return nil
    }
}
