package import Addressing
package import Reactor
import Timekeeping

/// A TCP client that the test controls.
package actor TCPClient {
    package enum Event: Sendable, Equatable {
        case connected
        case received(String)
        case closed
    }

    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    package nonisolated let events = Mailbox<Event>()
    private var connection: StreamConnection?
    private var timer: LoopTimer?

    package init(_ loop: EventLoop) { self.loop = loop }

    package static func connected(to target: Endpoint, on loop: EventLoop) async throws -> TCPClient {
        let client = TCPClient(loop)
        try await client.connect(to: target)
        return client
    }

    /// Connects to the target, and sends `first` in the same iteration of the loop.
    package func connect(to target: Endpoint, sending first: [UInt8] = []) throws {
        let events = events
        var limits = StreamConnection.Limits()
        limits.output = 64 << 20
        limits.outputTimeout = .seconds(60)
        connection = try StreamConnection.connect(
            to: target, on: loop, limits: limits,
            handlers: .init(
                connected: { _ in events.put(.connected) },
                received: { _, bytes in
                    events.put(
                        .received(unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }))
                    return bytes.count
                }, closed: { _, _ in events.put(.closed) }))
        if !first.isEmpty { send(first) }
    }

    package func send(_ text: String) { send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) { connection?.send(bytes) }

    /// Sends the text again and again, until the connection ends.
    package func keepSending(_ text: String, every pause: Duration) throws {
        timer = try LoopTimer(on: loop) { [weak self] in
            self?.assumeIsolated { client in
                client.send(text)
                client.timer?.arm(at: client.loop.now + pause)
            }
        }
        timer?.arm(at: loop.now)
    }

    package func setReading(_ isOn: Bool) { connection?.setReading(isOn) }

    package func close() {
        timer = nil
        connection?.close()
        connection = nil
    }

    /// Collects the received text until `isEnough` returns true or the connection ends.
    package nonisolated func text(until isEnough: (String) -> Bool) async throws -> String {
        var all = ""
        while !isEnough(all) {
            switch try await events.next() {
            case .connected: break
            case .received(let part): all += part
            case .closed: return all
            }
        }
        return all
    }

    package nonisolated func end() async throws { _ = try await text { _ in false } }

    /// Sends a request on a connection of its own, and returns the whole answer after the server has closed the
    /// connection. If the server sends no answer, the result is empty.
    package static func answer(to request: [UInt8], from server: Endpoint) async throws -> String {
        try await withLoop { loop in
            let client = TCPClient(loop)
            try await client.connect(to: server, sending: request)
            return try await client.text { _ in false }
        }
    }

    package static func answer(to request: String, from server: Endpoint) async throws -> String {
        try await answer(to: Array(request.utf8), from: server)
    }
}
