import Addressing
import Crypto
import LoopTesting
import Reactor
import Testing

@Suite("Resumed sessions", .timeLimit(.minutes(10)))
struct ResumptionTests {
    private let server: SelfSignedCertificate
    private let peer: SelfSignedCertificate
    private let other: SelfSignedCertificate
    private let tickets: TicketKeys

    init() throws {
        server = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        peer = try SelfSignedCertificate(hosts: ["pbx.example"])
        other = try SelfSignedCertificate(hosts: ["other.example"])
        tickets = try TicketKeys()
    }

    /// Makes a TLS context of the server. All contexts share their ticket keys, like the contexts of a daemon before
    /// and after SIGHUP.
    private func context(_ clients: TLSContext.ClientCertificates) throws -> TLSContext {
        try TLSContext.server(
            identities: [TLSIdentity(certificate: .bytes(server.certificate), key: .bytes(server.key))],
            clients: clients, tickets: tickets)
    }

    /// Connects twice; the second connection offers the session ticket of the first connection.
    ///
    /// - Returns: whether the second handshake was abbreviated, and the identity of the peer after it.
    private func connect(
        showing shown: SelfSignedCertificate?, first: TLSContext.ClientCertificates,
        second: TLSContext.ClientCertificates
    ) async throws -> (isResumed: Bool, names: [String]) {
        var result = (isResumed: false, names: [String]())
        try await StreamBench.with { bench in
            let client = try TLSContext.client(
                authority: .bytes(server.certificate), certificate: shown.map { .bytes($0.certificate) },
                key: shown.map { .bytes($0.key) })
            // A TLS 1.3 server sends its session tickets before its first data byte, so the client has the tickets when
            // the byte arrives.
            await bench.setReply { $0.send([2]) }
            let target = try await bench.listen(tls: try context(first))
            let earlier = try client.makeClientSession(host: "127.0.0.1")
            try await bench.connect(to: target, tls: earlier)
            try await bench.client.expect(.connected)
            await bench.at(.client) { $0.send([1]) }
            try await bench.client.expect(.received([2]))

            let next = try await bench.listen(tls: try context(second))
            let session = try client.makeClientSession(host: "127.0.0.1")
            try session.resume(earlier)
            try await bench.connect(to: next, tls: session)
            try await bench.client.expect(.connected)
            await bench.at(.client, 1) { $0.send([1]) }
            try await bench.client.expect(.received([2]))
            result = await bench.at(.server, 1) { ($0.tls?.isResumed ?? false, $0.tls?.peerNames ?? []) }
        }
        return result
    }

    @Test func `phones resume sessions, with and without requests for certificates`() async throws {
        for clients: TLSContext.ClientCertificates in [.unknown, .mayShow(.bytes(peer.certificate))] {
            #expect(try await connect(showing: nil, first: clients, second: clients).isResumed)
        }
    }

    @Test func `a peer that has shown a certificate shows it again`() async throws {
        let clients = TLSContext.ClientCertificates.mayShow(.bytes(peer.certificate))
        let found = try await connect(showing: peer, first: clients, second: clients)
        #expect(!found.isResumed)
        #expect(found.names == ["pbx.example"])
    }

    @Test func `a ticket ends with the authorities that it was made under`() async throws {
        let (first, second) = (Self.mayShow(peer), Self.mayShow(other))
        let found = try await connect(showing: peer, first: first, second: second)
        #expect(!found.isResumed)
        #expect(found.names == [])
        // A listener with other rules for client certificates has another session context, and so resumes no session.
        #expect(try await !connect(showing: nil, first: first, second: second).isResumed)
        #expect(try await !connect(showing: nil, first: .unknown, second: first).isResumed)
    }

    private static func mayShow(_ authority: SelfSignedCertificate) -> TLSContext.ClientCertificates {
        .mayShow(.bytes(authority.certificate))
    }
}
