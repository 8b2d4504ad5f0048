import Addressing
import Crypto
import LoopTesting
import Reactor
import Testing

@Suite("Turns of the loop", .timeLimit(.minutes(10)))
struct LoopTurnTests {
    /// A UDP socket whose handler arms a timer for the current time, with the priority that the test chooses.
    actor Receiver {
        private let loop: EventLoop
        private let mailbox: Mailbox<String>
        private var sockets: [UDPSocket] = []
        private var timer: LoopTimer?
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop, _ mailbox: Mailbox<String>) {
            self.loop = loop
            self.mailbox = mailbox
        }

        /// Opens the socket. Two batches of datagrams already wait when the loop reads the socket for the first time.
        func open(turn: LoopTurn) throws {
            let sender = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            let receiver = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            for _ in 0..<2 * DatagramBatch.capacity { sender.queue([1], to: receiver.local) }
            sender.flush()
            let timer = try LoopTimer(on: loop, turn: turn) { self.mailbox.put("timer") }
            try receiver.receive { batch in
                self.mailbox.put("batch of \(batch.count)")
                timer.arm(at: self.loop.now)
            }
            self.timer = timer
            sockets = [sender, receiver]
        }

        func close() {
            for socket in sockets { socket.close() }
            timer = nil
        }
    }

    private func order(turn: LoopTurn) async throws -> [String] {
        try await withLoop { loop in
            let mailbox = Mailbox<String>()
            let receiver = Receiver(loop, mailbox)
            try await receiver.open(turn: turn)
            var order: [String] = []
            for _ in 0..<3 { order.append(try await mailbox.next()) }
            await receiver.close()
            return order
        }
    }

    @Test func `the first turn comes before the next batch of datagrams is read`() async throws {
        #expect(try await order(turn: .first) == ["batch of 16", "timer", "batch of 16"])
    }

    @Test func `the usual turn comes after the datagrams that already wait`() async throws {
        #expect(try await order(turn: .usual) == ["batch of 16", "batch of 16", "timer"])
    }

    /// A UDP socket and a TLS listener on one loop. Two batches of datagrams and some connections already wait when the
    /// loop reads for the first time.
    actor Crowd {
        private let loop: EventLoop
        private let mailbox: Mailbox<String>
        private var sockets: [UDPSocket] = []
        private var listener: StreamListener?
        private var connections: [StreamConnection] = []
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop, _ mailbox: Mailbox<String>) {
            self.loop = loop
            self.mailbox = mailbox
        }

        func gather(_ context: TLSContext) throws {
            let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: context, limit: 100) {
                _ in
                self.mailbox.put("accepted")
            }
            for _ in 0..<3 {
                let connection = try StreamConnection.connect(
                    to: listener.local, on: loop,
                    handlers: .init(connected: { _ in }, received: { _, bytes in bytes.count }, closed: { _, _ in }))
                connections.append(connection)
            }
            let sender = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            let receiver = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            for _ in 0..<2 * DatagramBatch.capacity { sender.queue([1], to: receiver.local) }
            sender.flush()
            try receiver.receive { batch in self.mailbox.put("batch of \(batch.count)") }
            self.listener = listener
            sockets = [sender, receiver]
        }

        func close() {
            for socket in sockets { socket.close() }
            for connection in connections { connection.close() }
            listener = nil
        }
    }

    @Test func `connections that will want a handshake wait for the datagrams that wait already`() async throws {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let context = try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key))
        try await withLoop { loop in
            let mailbox = Mailbox<String>()
            let crowd = Crowd(loop, mailbox)
            try await crowd.gather(context)
            try await mailbox.expect("batch of 16", "batch of 16", "accepted")
            await crowd.close()
        }
    }
}
