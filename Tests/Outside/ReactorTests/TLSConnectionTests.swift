import Addressing
import Crypto
import Dispatch
import LoopTesting
import Reactor
import Testing

@Suite("TLS connection", .timeLimit(.minutes(10)))
struct TLSConnectionTests {
    private static func identity(_ hosts: [String] = ["127.0.0.1", "sip.example"]) throws -> SelfSignedCertificate {
        try SelfSignedCertificate(hosts: hosts)
    }

    private func server(_ identity: SelfSignedCertificate, clientAuthority: PEM? = nil) throws -> TLSContext {
        try TLSContext.server(
            certificate: .bytes(identity.certificate), key: .bytes(identity.key), protocols: ["sip", "h2"],
            clientAuthority: clientAuthority)
    }

    @Test(arguments: ["127.0.0.1", "sip.example"])
    func `a verified client and the server exchange bytes and agree on a protocol`(host: String) async throws {
        try await StreamBench.with { bench in
            let identity = try Self.identity()
            let context = try TLSContext.client(
                authority: .bytes(identity.certificate), protocols: ["http/1.1", "h2", "sip"])
            let target = try await bench.listen(tls: server(identity))
            try await bench.connect(to: target, tls: context.makeClientSession(host: host))
            await bench.at(.client) { $0.send([1, 2, 3]) }
            try await bench.client.expect(.connected)
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.connected)
            let up = try await bench.server.bytes(3)
            #expect(up == [1, 2, 3])
            let block = [UInt8](repeating: 6, count: 200_000)
            await bench.at(.server) { $0.send(block) }
            let down = try await bench.client.bytes(block.count)
            #expect(down == block)
            let names = await (
                bench.at(.server) { $0.tls?.applicationProtocol }, bench.at(.client) { $0.tls?.applicationProtocol }
            )
            #expect(names.0 == "sip" && names.1 == "sip")
            let version = await bench.at(.client) { $0.tls?.version }
            #expect(version == "TLSv1.3")
            await bench.at(.client) { $0.close() }
            try await bench.server.expect(.closed(.peerClosed))
        }
    }

    @Test func `output that the peer may have got never counts as unsent`() async throws {
        var limits = StreamBench.limits
        limits.output = 64 << 20
        try await StreamBench.with { [limits] bench in
            let identity = try Self.identity()
            let context = try TLSContext.client(authority: .bytes(identity.certificate))
            try await bench.connect(
                to: bench.listen(tls: server(identity), limits: limits),
                tls: context.makeClientSession(host: "127.0.0.1"))
            try await bench.client.expect(.connected)
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.connected)
            await bench.at(.client) { $0.setReading(false) }
            // Short records have the most overhead, so most of the waiting bytes are overhead.
            let (given, waits, unsent) = await bench.at(.server) { connection in
                var given = 0
                // The kernel can take some bytes a moment after it took none.
                while connection.unsentCount < 50 {
                    while connection.outputCount == 0 {
                        connection.send([UInt8](repeating: 0, count: 1000))
                        given += 1000
                    }
                    for _ in 0..<50 { connection.send([1]) }
                    given += 50
                }
                return (given, connection.outputCount, connection.unsentCount)
            }
            #expect(waits > 50 && unsent >= 50 && unsent <= 1100)
            await bench.at(.client) { $0.setReading(true) }
            _ = try await bench.client.bytes(given)
            let rest = await bench.at(.server) { ($0.outputCount, $0.unsentCount) }
            #expect(rest == (0, 0))
        }
    }

    @Test(arguments: ["127.0.0.2", "other.example"])
    func `a certificate for another host is refused by the client`(host: String) async throws {
        try await StreamBench.with { bench in
            let identity = try Self.identity()
            let context = try TLSContext.client(authority: .bytes(identity.certificate))
            try await bench.connect(to: bench.listen(tls: server(identity)), tls: context.makeClientSession(host: host))
            guard case .closed(.tls(let reason)) = try await bench.client.next() else { throw Unexpected() }
            #expect(reason.contains("mismatch"))
        }
    }

    @Test func `a certificate of an unknown authority is refused by the client`() async throws {
        try await StreamBench.with { bench in
            let context = try TLSContext.client(authority: .bytes(Self.identity().certificate))
            let target = try await bench.listen(tls: server(Self.identity()))
            try await bench.connect(to: target, tls: context.makeClientSession(host: "127.0.0.1"))
            guard case .closed(.tls) = try await bench.client.next() else { throw Unexpected() }
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            guard case .closed(.tls) = try await bench.server.next() else { throw Unexpected() }
        }
    }

    @Test(arguments: [true, false])
    func `a server that asks for a client certificate serves only clients that have one`(hasOne: Bool) async throws {
        try await StreamBench.with { bench in
            let (identity, phone) = (try Self.identity(), try Self.identity(["phone"]))
            let context = try TLSContext.client(
                authority: .bytes(identity.certificate), certificate: hasOne ? .bytes(phone.certificate) : nil,
                key: hasOne ? .bytes(phone.key) : nil)
            let target = try await bench.listen(tls: server(identity, clientAuthority: .bytes(phone.certificate)))
            try await bench.connect(to: target, tls: context.makeClientSession(host: "127.0.0.1"))
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            let event = try await bench.server.next()
            if hasOne {
                #expect(event == .connected)
            } else {
                guard case .closed(.tls) = event else { throw Unexpected() }
            }
        }
    }

    @Test func `a client that talks plain text gets no further than the handshake`() async throws {
        try await StreamBench.with { bench in
            try await bench.connect(to: bench.listen(tls: server(Self.identity())))
            await bench.at(.client) { $0.send(Array("OPTIONS sip:a SIP/2.0\r\n\r\n".utf8)) }
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            guard case .closed(.tls) = try await bench.server.next() else { throw Unexpected() }
        }
    }

    @Test func `a silent client is closed when the handshake takes too long`() async throws {
        try await StreamBench.with { bench in
            var limits = StreamConnection.Limits()
            limits.openTimeout = .milliseconds(20)
            try await bench.connect(to: bench.listen(tls: server(Self.identity()), limits: limits))
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.closed(.openTimeout))
        }
    }

    @Test func `changed limits hold for the next connection`() async throws {
        try await StreamBench.with { bench in
            let target = try await bench.listen(tls: server(Self.identity()))
            await bench.setOpenTimeout(.milliseconds(20))
            try await bench.connect(to: target)
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.closed(.openTimeout))
        }
    }

    /// The test blocks the event loop as soon as the loop has accepted the connection.
    @Test func `a handshake does not wait for the work of its loop`() async throws {
        let gate = DispatchSemaphore(value: 0)
        try await StreamBench.with { server in
            let target = try await server.listen(tls: self.server(Self.identity()))
            await server.setStarted { gate.wait() }
            try await StreamBench.with { other in
                defer { gate.signal() }
                let session = try TLSContext.client(verifiesPeer: false).makeClientSession(host: "127.0.0.1")
                try await other.connect(to: target, tls: session)
                try await other.client.expect(.connected)
            }
            guard case .accepted = try await server.server.next() else { throw Unexpected() }
            try await server.server.expect(.connected)
        }
    }

    @Test func `all are served when many more connect than handshakes are begun at a time`() async throws {
        try await StreamBench.with { bench in
            let context = try TLSContext.client(verifiesPeer: false)
            let target = try await bench.listen(tls: server(Self.identity()), limit: 300)
            for _ in 0..<200 { try await bench.connect(to: target, tls: context.makeClientSession(host: "127.0.0.1")) }
            for _ in 0..<200 { try await bench.client.expect(.connected) }
        }
    }

    @Test func `contexts report the problems of their files`() throws {
        let (one, other) = (try Self.identity(), try Self.identity())
        #expect(throws: TLSError.keyDoesNotMatchCertificate) {
            try TLSContext.server(certificate: .bytes(one.certificate), key: .bytes(other.key))
        }
        #expect(throws: TLSError.unreadable(source: "/nonexistent", reason: "No such file or directory")) {
            try TLSContext.client(authority: .file("/nonexistent"))
        }
        #expect(throws: TLSError.unreadable(source: "PEM bytes", reason: "no certificate in PEM form")) {
            try TLSContext.server(certificate: .bytes(one.key), key: .bytes(one.key))
        }
    }

    struct Unexpected: Error {}
}
