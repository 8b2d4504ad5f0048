import Addressing
import Crypto
import Dispatch
import LoopTesting
import Reactor
import Testing

/// Thousands of handshakes that end at the same moment must not delay datagrams.
@Suite("Turns of handshakes", .timeLimit(.minutes(10)))
struct HandshakeTurnsTests {
    static let phoneCount = 20

    /// Lets the daemon's loop and the phones' loop wait for each other. The time limit of the test suite ends a test
    /// that would wait forever.
    final class Gate: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)

        func open() { semaphore.signal() }

        func wait() { #expect(semaphore.wait(timeout: .now() + 30) == .success) }
    }

    /// Phones that connect at the same moment, on a loop of their own. After the phones, a stranger connects and sends
    /// invalid data.
    actor Phones {
        private let loop: EventLoop
        private var phones: [StreamConnection] = []
        private var stranger: StreamConnection?
        private var connectedCount = 0
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop) { self.loop = loop }

        /// Connects all phones, which send nothing until the server has accepted all connections. The stranger is
        /// refused last: its data arrives after the last message of each phone, when all handshakes are done.
        func connect(to target: Endpoint, _ context: TLSContext, accepted: Gate, done: Gate) throws {
            for _ in 0..<HandshakeTurnsTests.phoneCount {
                phones.append(
                    try StreamConnection.connect(
                        to: target, on: loop, tls: try context.makeClientSession(host: "127.0.0.1"),
                        handlers: .init(
                            connected: { _ in self.connected() }, received: { _, bytes in bytes.count },
                            closed: { _, _ in })))
            }
            stranger = try StreamConnection.connect(
                to: target, on: loop,
                handlers: .init(
                    connected: { _ in }, received: { _, bytes in bytes.count }, closed: { _, _ in done.open() }))
            accepted.wait()
        }

        private func connected() {
            connectedCount += 1
            if connectedCount == HandshakeTurnsTests.phoneCount { stranger?.send(Array("nonsense".utf8)) }
        }

        func close() {
            phones = []
            stranger = nil
        }
    }

    /// The server to which the phones connect. The server gets a datagram as soon as the first connection is open.
    actor Host {
        private let loop: EventLoop
        private let mailbox: Mailbox<String>
        private var sender: UDPSocket?
        private var receiver: UDPSocket?
        private var listener: StreamListener?
        private var connections: [StreamConnection] = []
        private var isFirst = true
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop, _ mailbox: Mailbox<String>) {
            self.loop = loop
            self.mailbox = mailbox
        }

        /// Starts to listen. When the last connection is accepted, the server's loop blocks until the phones have
        /// finished their handshakes.
        func listen(_ context: TLSContext, accepted: Gate, done: Gate) throws -> Endpoint {
            let (sender, receiver) = (
                try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop),
                try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            )
            try receiver.receive { _ in self.mailbox.put("datagram") }
            (self.sender, self.receiver) = (sender, receiver)
            var limits = StreamConnection.Limits()
            limits.turn = .connections
            let listener = try StreamListener(
                boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: context, limit: 100, connectionLimits: limits
            ) { connection in
                try? connection.start(
                    .init(
                        connected: { _ in self.opened() }, received: { _, bytes in bytes.count }, closed: { _, _ in }))
                self.connections.append(connection)
                guard self.connections.count == HandshakeTurnsTests.phoneCount + 1 else { return }
                accepted.open()
                done.wait()
            }
            self.listener = listener
            return listener.local
        }

        private func opened() {
            mailbox.put("open")
            guard isFirst, let sender, let receiver else { return }
            isFirst = false
            sender.queue([1], to: receiver.local)
            sender.flush()
        }

        func close() {
            sender?.close()
            receiver?.close()
            listener = nil
            connections = []
        }
    }

    @Test func `when many handshakes are done together, a datagram waits for four of them`() async throws {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let server = try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key))
        let client = try TLSContext.client(verifiesPeer: false)
        let order = try await withLoop { hostLoop in
            try await withLoop { phoneLoop in
                let mailbox = Mailbox<String>()
                let (host, phones) = (Host(hostLoop, mailbox), Phones(phoneLoop))
                let (accepted, done) = (Gate(), Gate())
                let target = try await host.listen(server, accepted: accepted, done: done)
                try await phones.connect(to: target, client, accepted: accepted, done: done)
                var order: [String] = []
                for _ in 0...Self.phoneCount { order.append(try await mailbox.next()) }
                await phones.close()
                await host.close()
                return order
            }
        }
        #expect(order.count { $0 == "open" } == Self.phoneCount)
        let place = try #require(order.firstIndex(of: "datagram"))
        #expect(place <= 4)
    }
}
