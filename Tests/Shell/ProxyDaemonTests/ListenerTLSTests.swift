import Addressing
import Crypto
import LoopTesting
import Reactor
import TestSupport
import Testing

@testable import ProxyDaemon
@testable import ProxyRuntime

/// Tests that the daemon reads each TLS file of SIP again at SIGHUP, if its contents have changed.
@Suite("Reading the TLS files of SIP again", .timeLimit(.minutes(10)))
struct ListenerTLSTests {
    private let folder: TemporaryFolder
    private let first: SelfSignedCertificate
    private let second: SelfSignedCertificate
    private let peer: SelfSignedCertificate

    init() throws {
        folder = try TemporaryFolder()
        first = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        second = try SelfSignedCertificate(hosts: ["127.0.0.1", "second.example.net"])
        peer = try SelfSignedCertificate(hosts: ["127.0.0.1", "peer.example.net"])
    }

    /// Writes the TLS files with the given contents, and returns settings that name all of these files.
    private func settings(
        _ identity: SelfSignedCertificate, servers: SelfSignedCertificate, clients: SelfSignedCertificate
    ) throws -> TLSSettings {
        var settings = TLSSettings()
        settings.certFile = try folder.write(identity.certificate, to: "cert.pem")
        settings.keyFile = try folder.write(identity.key, to: "key.pem")
        settings.caFile = try folder.write(servers.certificate, to: "ca.pem")
        settings.clientCAFile = try folder.write(clients.certificate, to: "clients.pem")
        return settings
    }

    private func withTLS(
        _ settings: TLSSettings, _ body: (TLSMeeting) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let meeting = TLSMeeting(loop)
            try await meeting.load(settings)
            try await body(meeting)
            await meeting.close()
        }
    }

    /// Makes the TLS context of a client that has its own certificate and trusts one other certificate.
    private func client(
        trusting authority: SelfSignedCertificate, showing identity: SelfSignedCertificate? = nil
    ) throws -> TLSContext {
        try TLSContext.client(
            authority: .bytes(authority.certificate), certificate: identity.map { .bytes($0.certificate) },
            key: identity.map { .bytes($0.key) })
    }

    @Test(arguments: [false, true])
    func `the certificate of listeners, for SIP and for WebSocket`(isWeb: Bool) async throws {
        let before = try settings(first, servers: peer, clients: peer)
        try await withTLS(before) { meeting in
            #expect(try await meeting.server(isWeb, meets: client(trusting: first)) != nil)
            let after = try settings(second, servers: peer, clients: peer)
            try await meeting.load(after)
            #expect(try await meeting.server(isWeb, meets: client(trusting: second)) != nil)
            #expect(try await meeting.server(isWeb, meets: client(trusting: first)) == nil)
            // The test writes the key of another certificate into the key file.
            _ = try folder.write(first.key, to: "key.pem")
            await #expect(throws: StartError.self) { try await meeting.load(after) }
            #expect(try await meeting.server(isWeb, meets: client(trusting: second)) != nil)
        }
    }

    @Test func `authorities of peers`() async throws {
        let before = try settings(first, servers: peer, clients: peer)
        try await withTLS(before) { meeting in
            let shown = try client(trusting: first, showing: peer)
            #expect(try await meeting.server(false, meets: shown) == ["peer.example.net"])
            _ = try folder.write(second.certificate, to: "clients.pem")
            try await meeting.load(before)
            #expect(try await meeting.server(false, meets: shown) == [])
            _ = try folder.write(Array("broken".utf8), to: "clients.pem")
            await #expect(throws: StartError.self) { try await meeting.load(before) }
            let other = try client(trusting: first, showing: second)
            #expect(try await meeting.server(false, meets: other) == ["second.example.net"])
        }
    }

    @Test func `authorities of servers, and the certificate that they are shown`() async throws {
        let before = try settings(first, servers: peer, clients: peer)
        try await withTLS(before) { meeting in
            func upstream(_ identity: SelfSignedCertificate, demands authority: SelfSignedCertificate) throws
                -> TLSContext
            {
                try TLSContext.server(
                    certificate: .bytes(identity.certificate), key: .bytes(identity.key), protocols: ["sip/2"],
                    clientAuthority: .bytes(authority.certificate))
            }
            #expect(try await meeting.daemon(meets: upstream(peer, demands: first)) != nil)
            #expect(try await meeting.daemon(meets: upstream(peer, demands: second)) == nil)
            let after = try settings(second, servers: first, clients: peer)
            try await meeting.load(after)
            #expect(try await meeting.daemon(meets: upstream(first, demands: second)) != nil)
            #expect(try await meeting.daemon(meets: upstream(peer, demands: second)) == nil)
            _ = try folder.write([], to: "ca.pem")
            await #expect(throws: StartError.self) { try await meeting.load(after) }
            #expect(try await meeting.daemon(meets: upstream(first, demands: second)) != nil)
        }
    }
}

/// The TLS contexts of a daemon, and peers that connect to it, on one loop.
actor TLSMeeting {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private var tls: ListenerTLS?
    private var listener: StreamListener?
    private var streams: [StreamConnection] = []

    init(_ loop: EventLoop) { self.loop = loop }

    func load(_ settings: TLSSettings) throws {
        if let tls { try tls.load(settings) } else { tls = try ListenerTLS(settings, on: loop) }
    }

    /// Loads the certificates for other nodes; the nodes' listener has the number 3.
    func load(_ settings: TLSSettings = TLSSettings(), cluster: ClusterSettings) throws {
        if let tls { return try tls.load(cluster) }
        let made = try ListenerTLS(settings, cluster: cluster, on: loop)
        made.setup.usesForNodes(3)
        tls = made
    }

    /// Connects a client to the listener for nodes, and returns the names that the client proved; `nil` if the
    /// handshake fails.
    func nodes(meet client: TLSContext) async throws -> [String]? {
        try await meet(tls?.nodes, client.makeClientSession(host: "127.0.0.1"))
    }

    /// Connects the node to another node at 127.0.0.1, and returns the names that the own certificate proved there;
    /// `nil` if the handshake fails. With `isNode` false, the flow is a flow to a SIP server.
    func node(meets server: TLSContext, isNode: Bool = true) async throws -> [String]? {
        let flow = Flow(
            transport: .tls, listener: isNode ? 3 : 0, connection: 0, remote: Endpoint(.loopbackV4, 1))
        return try await meet(server, tls?.setup.session(for: flow))
    }

    /// Connects the node to itself.
    func nodeMeetsItself() async throws -> [String]? { try await node(meets: try #require(tls?.nodes)) }

    /// Connects a client to the daemon, and returns the names that the client proved; `nil` if the handshake fails.
    func server(_ isWeb: Bool, meets client: TLSContext) async throws -> [String]? {
        let session = try client.makeClientSession(host: "127.0.0.1")
        return try await meet(isWeb ? tls?.web : tls?.server, session)
    }

    /// Connects the daemon to a server, and returns the names that the server proved; `nil` if the handshake fails.
    func daemon(meets server: TLSContext) async throws -> [String]? {
        let flow = Flow(transport: .tls, listener: 0, connection: 0, remote: Endpoint(.loopbackV4, 1))
        return try await meet(server, tls?.setup.session(for: flow))
    }

    private func meet(_ context: TLSContext?, _ session: TLSSession?) async throws -> [String]? {
        let ends = Mailbox<[String]?>()
        let server: TLSContext = try #require(context)
        let client: TLSSession = try #require(session)
        let listener = try StreamListener(
            boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: server, limit: 10
        ) { [weak self] stream in
            self?.assumeIsolated { $0.accepted(stream, ends) }
        }
        self.listener = listener
        streams.append(
            try StreamConnection.connect(
                to: listener.local, on: loop, tls: client,
                handlers: StreamConnection.Handlers(
                    connected: { _ in }, received: { $1.count }, closed: { _, _ in ends.put(nil) })))
        return try await ends.next()
    }

    private func accepted(_ stream: StreamConnection, _ ends: Mailbox<[String]?>) {
        streams.append(stream)
        try? stream.start(
            StreamConnection.Handlers(
                connected: { ends.put($0.tls?.peerNames ?? []) }, received: { $1.count },
                closed: { _, _ in ends.put(nil) }))
    }

    func close() {
        listener = nil
        for stream in streams { stream.close() }
        streams = []
        tls = nil
    }
}
