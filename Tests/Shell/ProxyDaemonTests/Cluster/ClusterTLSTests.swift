import Crypto
import Foundation
import LoopTesting
import TestSupport
import Testing

@testable import ProxyDaemon

/// Tests which certificates two nodes of a cluster accept from one another.
@Suite("Certificates of nodes", .timeLimit(.minutes(10)))
struct ClusterTLSTests {
    private let folder: TemporaryFolder
    private let cluster: ClusterSettings
    /// The tests' other node, whose certificate names 127.0.0.1.
    private let peer: TLSIdentity
    private let authority: TLSIdentity
    private let stranger: TLSIdentity

    init() throws {
        folder = try TemporaryFolder()
        authority = try Self.authority(in: folder, "ca")
        stranger = try Self.authority(in: folder, "stranger")
        peer = try Self.node("node-b", "127.0.0.1", of: authority)
        var cluster = ClusterSettings()
        cluster.node = "node-a"
        let own = try ClusterCertificates(node: "node-a", addresses: ["127.0.0.1"], days: 825)
            .issue(authority: folder.file("ca.pem"), key: folder.file("ca.key"))
        cluster.certFile = try folder.write(own.certificate, to: "node-a.pem")
        cluster.keyFile = try folder.write(own.key, to: "node-a.key")
        cluster.caFile = folder.file("ca.pem")
        self.cluster = cluster
    }

    private static func authority(in folder: TemporaryFolder, _ name: String) throws -> TLSIdentity {
        let made = try ClusterCertificates.makeAuthority()
        return TLSIdentity(
            certificate: .file(try folder.write(made.certificate, to: name + ".pem")),
            key: .file(try folder.write(made.key, to: name + ".key")))
    }

    private static func node(_ name: String, _ address: String, of authority: TLSIdentity) throws -> TLSIdentity {
        let made = try CertificateAuthority(authority).issue(name: name, addresses: [address], validDays: 10)
        return TLSIdentity(certificate: .bytes(made.certificate), key: .bytes(made.key))
    }

    private func withNode(
        phones: TLSSettings = TLSSettings(), _ body: (TLSMeeting) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let meeting = TLSMeeting(loop)
            try await meeting.load(phones, cluster: cluster)
            try await body(meeting)
            await meeting.close()
        }
    }

    /// A client that shows the given certificate, and accepts the node's certificate.
    private func client(_ identity: TLSIdentity?) throws -> TLSContext {
        try TLSContext.client(
            authority: authority.certificate, certificate: identity?.certificate, key: identity?.key)
    }

    private func server(_ identity: TLSIdentity) throws -> TLSContext {
        try TLSContext.server(identities: [identity], clients: .mustShow(authority.certificate))
    }

    @Test func `a certificate of the cluster's authority is accepted by both sides`() async throws {
        try await withNode { meeting in
            let seen1 = try await meeting.nodeMeetsItself()
            #expect(seen1 == ["node-a"])
            let seen2 = try await meeting.nodes(meet: client(peer))
            #expect(seen2 == ["node-b"])
            let seen3 = try await meeting.node(meets: server(peer))
            #expect(seen3 == ["node-a"])
        }
    }

    @Test func `the listener refuses a client without a certificate, and one of another authority`() async throws {
        let other = try Self.node("node-b", "127.0.0.1", of: stranger)
        let alone = try SelfSignedCertificate(hosts: ["node-b", "127.0.0.1"])
        let selfSigned = TLSIdentity(certificate: .bytes(alone.certificate), key: .bytes(alone.key))
        try await withNode { meeting in
            let seen4 = try await meeting.nodes(meet: client(nil))
            #expect(seen4 == nil)
            let seen5 = try await meeting.nodes(meet: client(other))
            #expect(seen5 == nil)
            let seen6 = try await meeting.nodes(meet: client(selfSigned))
            #expect(seen6 == nil)
            let seen7 = try await meeting.nodes(meet: client(authority))
            #expect(seen7 == nil, "the authority is no node")
        }
    }

    @Test func `the authority of phones and peers makes nobody a node`() async throws {
        let phones = try SelfSignedCertificate(hosts: ["127.0.0.1", "phones.example.net"])
        let phone = TLSIdentity(certificate: .bytes(phones.certificate), key: .bytes(phones.key))
        var settings = TLSSettings()
        settings.certFile = try folder.write(phones.certificate, to: "phones.pem")
        settings.keyFile = try folder.write(phones.key, to: "phones.key")
        settings.caFile = folder.file("phones.pem")
        settings.clientCAFile = folder.file("phones.pem")
        try await withNode(phones: settings) { meeting in
            let seen8 = try await meeting.nodes(meet: client(phone))
            #expect(seen8 == nil)
            let seen9 = try await meeting.node(meets: server(phone))
            #expect(seen9 == nil)
            // A flow to a SIP server accepts the servers' authority, and does not accept the cluster's.
            let upstream = try TLSContext.server(identities: [phone])
            #expect(try await meeting.node(meets: upstream, isNode: false) != nil)
            let seen10 = try await meeting.node(meets: TLSContext.server(identities: [peer]), isNode: false)
            #expect(seen10 == nil)
        }
    }

    @Test func `a node connects only to the owner of the address`() async throws {
        try await withNode { meeting in
            let elsewhere = try Self.node("node-c", "127.0.0.2", of: authority)
            let seen11 = try await meeting.node(meets: server(elsewhere))
            #expect(seen11 == nil)
            let sameName = try Self.node("127-0-0-1", "192.0.2.1", of: authority)
            let seen12 = try await meeting.node(meets: server(sameName))
            #expect(seen12 == nil)
            let other = try Self.node("node-b", "127.0.0.1", of: stranger)
            let seen13 = try await meeting.node(meets: server(other))
            #expect(seen13 == nil)
        }
    }

    @Test func `changed files are read again, and unusable files change nothing`() async throws {
        try await withNode { meeting in
            let other = try Self.node("node-b", "127.0.0.1", of: stranger)
            let original = try Array(Data(contentsOf: URL(filePath: folder.file("ca.pem"))))
            _ = try folder.write(Array("broken".utf8), to: "ca.pem")
            await #expect(throws: (any Error).self) { try await meeting.load(cluster: cluster) }
            let seen14 = try await meeting.nodeMeetsItself()
            #expect(seen14 == ["node-a"])
            _ = try folder.write(original, to: "ca.pem")
            // The authorities of both are accepted while the nodes get certificates of a new authority.
            let pair = try ClusterCertificates(node: "node-a", addresses: ["127.0.0.1"], days: 825)
                .issue(authority: folder.file("stranger.pem"), key: folder.file("stranger.key"))
            _ = try folder.write(pair.certificate, to: "node-a.pem")
            _ = try folder.write(pair.key, to: "node-a.key")
            var changed = cluster
            changed.caFile = folder.file("stranger.pem")
            try await meeting.load(cluster: changed)
            let newClient = try TLSContext.client(
                authority: stranger.certificate, certificate: other.certificate, key: other.key)
            let seen15 = try await meeting.nodes(meet: newClient)
            #expect(seen15 == ["node-b"])
            let seen16 = try await meeting.node(meets: server(peer))
            #expect(seen16 == nil)
        }
    }

    @Test func `an authority must have its own key, and a node's certificate is no authority`() throws {
        let request = try ClusterCertificates(node: "node-c", addresses: ["192.0.2.1"], days: 1)
        #expect(throws: (any Error).self) {
            _ = try request.issue(authority: folder.file("ca.pem"), key: folder.file("stranger.key"))
        }
        #expect(throws: (any Error).self) {
            _ = try request.issue(authority: folder.file("node-a.pem"), key: folder.file("node-a.key"))
        }
    }

    @Test func `a certificate ends with its authority at the latest`() throws {
        let short = try CertificateAuthority.make(name: "short", validDays: 5)
        let made = try CertificateAuthority(
            TLSIdentity(certificate: .bytes(short.certificate), key: .bytes(short.key))
        ).issue(name: "node-a", addresses: ["192.0.2.1"], validDays: 825)
        let ends = try [made.certificate, short.certificate].map { try PEM.bytes($0).certificateEnds() }
        #expect(ends[0] == ends[1])
    }
}
