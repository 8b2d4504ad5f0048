import Addressing
import Crypto
import LoopTesting
import Reactor
import Testing

/// Thousands of connections that open, send or close at the same moment must not delay datagrams. A flood of datagrams must not delay
/// connections either.
@Suite("Turns of connections", .timeLimit(.minutes(10)))
struct ConnectionTurnsTests {
    /// An event loop with the connections of many phones and one socket for datagrams.
    actor Crowd {
        private let loop: EventLoop
        private let mailbox: Mailbox<String>
        private var sender: UDPSocket?
        private var receiver: UDPSocket?
        private var listener: StreamListener?
        private var accepted: [StreamConnection] = []
        private var phones: [StreamConnection] = []
        /// Whether the first connection belongs to a trusted peer.
        private var hasTrunk = false
        /// The test's function that gets the text of each event.
        private var told: (String) -> Void = { _ in }
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop, _ mailbox: Mailbox<String>) {
            self.loop = loop
            self.mailbox = mailbox
        }

        func listen(tls: TLSContext? = nil, hasTrunk: Bool = false) throws {
            self.hasTrunk = hasTrunk
            var limits = StreamConnection.Limits()
            limits.turn = .connections
            listener = try StreamListener(
                boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: tls, limit: 100, connectionLimits: limits
            ) { connection in
                self.accepted.append(connection)
                let isTrunk = self.accepted.count == 1 && self.hasTrunk
                if isTrunk { connection.turn = .usual }
                try? connection.start(
                    .init(
                        connected: { _ in self.tell("open") },
                        received: { _, bytes in
                            self.tell(isTrunk ? "call" : "message")
                            return bytes.count
                        }, closed: { _, _ in self.tell("end") }))
            }
            sender = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            receiver = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            try receiver?.receive { _ in self.tell("datagrams") }
        }

        func connect(_ count: Int, tls: TLSContext? = nil) throws {
            guard let listener else { return }
            for _ in 0..<count {
                phones.append(
                    try StreamConnection.connect(
                        to: listener.local, on: loop, tls: try tls?.makeClientSession(host: "127.0.0.1"),
                        handlers: .init(connected: { _ in }, received: { _, bytes in bytes.count }, closed: { _, _ in })
                    ))
            }
        }

        private func tell(_ what: String) {
            mailbox.put(what)
            told(what)
        }

        private func sendDatagrams(_ count: Int) {
            guard let sender, let receiver else { return }
            for _ in 0..<count { sender.queue([1], to: receiver.local) }
            sender.flush()
        }

        /// Sends a datagram when the event `cause` is reported for the first time.
        func sendDatagram(atFirst cause: String) {
            var isFirst = true
            told = { what in
                guard isFirst, what == cause else { return }
                isFirst = false
                self.sendDatagrams(1)
            }
        }

        func endPhones() { for phone in phones { phone.close() } }

        /// Lets all phones send, and sends datagrams, so that the loop finds the data of phones and datagrams at the
        /// same time.
        func speakAll() {
            for phone in phones { phone.send([1]) }
            sendDatagrams(1)
        }

        /// Keeps the UDP socket full: after each read, sends as many datagrams as were read. During the flood of
        /// datagrams, one phone sends a byte.
        func flood() {
            told = { what in if what == "datagrams" { self.sendDatagrams(DatagramBatch.capacity) } }
            sendDatagrams(DatagramBatch.capacity)
            phones.first?.send([1])
        }

        /// Keeps a trusted peer's connection busy: the peer sends a byte whenever one was read. While the trusted peer
        /// sends messages, each phone sends one byte.
        func floodTrunk() {
            told = { what in if what == "call" { self.phones.first?.send([1]) } }
            for phone in phones { phone.send([1]) }
        }

        func close() {
            told = { _ in }
            sender?.close()
            receiver?.close()
            listener = nil
            for connection in accepted + phones { connection.close() }
        }
    }

    private func happenings(
        _ count: Int, phones: Int, tls: (server: TLSContext, client: TLSContext)? = nil, hasTrunk: Bool = false,
        _ body: (Crowd) async throws -> Void
    ) async throws -> [String] {
        try await withLoop { loop in
            let mailbox = Mailbox<String>()
            let crowd = Crowd(loop, mailbox)
            try await crowd.listen(tls: tls?.server, hasTrunk: hasTrunk)
            try await crowd.connect(phones, tls: tls?.client)
            for _ in 0..<phones { try await mailbox.expect("open") }
            try await body(crowd)
            var happenings: [String] = []
            for _ in 0..<count { happenings.append(try await mailbox.next()) }
            await crowd.close()
            return happenings
        }
    }

    private static func contexts() throws -> (server: TLSContext, client: TLSContext) {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        return (
            try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key)),
            try TLSContext.client(verifiesPeer: false)
        )
    }

    @Test(arguments: [false, true])
    func `when many connections end together, a datagram waits for the ends of four`(isSecure: Bool) async throws {
        let order = try await happenings(21, phones: 20, tls: isSecure ? Self.contexts() : nil) { crowd in
            await crowd.sendDatagram(atFirst: "end")
            await crowd.endPhones()
        }
        #expect(order.count { $0 == "end" } == 20)
        let place = try #require(order.firstIndex(of: "datagrams"))
        #expect(place <= 4)
    }

    @Test func `a datagram does not wait for connections with earlier bytes`() async throws {
        let order = try await happenings(2, phones: 20) { crowd in await crowd.speakAll() }
        #expect(order.first == "datagrams")
    }

    @Test func `a flood of datagrams lets connections have their turn`() async throws {
        let order = try await happenings(30, phones: 1) { crowd in await crowd.flood() }
        #expect(order.contains("message"))
    }

    @Test func `a trusted peer that always has more bytes leaves phones their turn`() async throws {
        let order = try await happenings(100, phones: 2, hasTrunk: true) { crowd in await crowd.floodTrunk() }
        #expect(order.contains("message"))
    }
}
