import Addressing
import Crypto
import Foundation
import LoopTesting
import Settings
import StoreTesting
import Testing
import Timekeeping

@testable import ProxyDaemon

/// Tests `sippushd cluster cert` as operators type it.
@Suite("The command cluster cert", .timeLimit(.minutes(10)), .serialized)
struct ClusterCommandTests {
    private let folder: StoreFolder
    private var authority: String { folder.folder + "/authority" }

    init() throws { folder = try StoreFolder() }

    private func run(_ node: String, _ rest: String..., ca: String? = nil) async throws -> DaemonProgram.Ended {
        try await DaemonProgram.run(
            ["cluster", "cert", "--ca", ca ?? authority, "--node", node] + rest, input: "", in: folder)
    }

    private func file(_ name: String) -> String { "\(authority)/\(name)" }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: file(name))[.posixPermissions] as? Int
    }

    private func contents(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: file(name))) }

    /// The settings of a node with the files in the folder.
    private func cluster(_ node: String) -> ClusterSettings {
        var cluster = ClusterSettings()
        cluster.node = node
        cluster.certFile = file("\(node).pem")
        cluster.keyFile = file("\(node).key")
        cluster.caFile = file("ca.pem")
        return cluster
    }

    @Test func `two nodes get certificates of one authority, and accept one another`() async throws {
        let first = try await run("node-a", "--address", "127.0.0.1", "--address", "2001:db8::21")
        #expect(first.status == 0, "\(first)")
        for (name, wanted) in [("ca.pem", 0o644), ("ca.key", 0o600), ("node-a.pem", 0o644), ("node-a.key", 0o600)] {
            #expect(try mode(name) == wanted, "\(name)")
        }
        let folderMode = try FileManager.default.attributesOfItem(atPath: authority)[.posixPermissions] as? Int
        #expect(folderMode == 0o700)
        let (certificate, key) = (try contents("ca.pem"), try contents("ca.key"))
        let second = try await run("node-b", "--address=127.0.0.1", "--days", "30")
        #expect(second.status == 0, "\(second)")
        #expect(try contents("ca.pem") == certificate && contents("ca.key") == key)
        #expect(!second.output.contains("new authority"))
        try await withLoop { loop in
            let meeting = TLSMeeting(loop)
            try await meeting.load(cluster: cluster("node-a"))
            let other = cluster("node-b")
            let (file, key) = (try #require(other.certFile), try #require(other.keyFile))
            let client = try TLSContext.client(
                authority: .file(self.file("ca.pem")), certificate: .file(file), key: .file(key))
            #expect(try await meeting.nodes(meet: client) == ["node-b"])
            let server = try TLSContext.server(
                identities: [TLSIdentity(certificate: .file(file), key: .file(key))],
                clients: .mustShow(.file(self.file("ca.pem"))))
            #expect(try await meeting.node(meets: server) == ["node-a"])
            await meeting.close()
        }
    }

    @Test func `the printed settings are right, and the check finds no fault`() async throws {
        let ended = try await run("node-a", "--address", "127.0.0.1")
        let lines = ended.output.split(separator: "\n").map(String.init)
        let begin = try #require(lines.firstIndex { $0.hasPrefix("  cluster:") })
        let yaml =
            "domains: [example.net]\npostgresql: {connection: \"host=127.0.0.1 dbname=a\"}\n"
            + lines[begin...].map { $0.dropFirst(2) }.joined(separator: "\n")
        var settings = try DaemonSettings(yaml: Array(yaml.utf8), file: "f")
        #expect(settings.cluster.node == "node-a" && settings.cluster.certFile?.hasPrefix("/etc/sippushd/") == true)
        settings.cluster.certFile = file("node-a.pem")
        settings.cluster.keyFile = file("node-a.key")
        settings.cluster.caFile = file("ca.pem")
        let end = try #require(try PEM.file(file("node-a.pem")).certificateEnds().first)
        func problems(_ settings: DaemonSettings, daysBefore days: Int64) -> [CertificateCheck.Fault] {
            var check = CertificateCheck(on: end + .seconds(-days * 86_400))
            check.check(settings, authorities: nil)
            return check.faults.filter(\.isForNodes)
        }
        #expect(problems(settings, daysBefore: 800) == [])
        #expect(problems(settings, daysBefore: 10).map(\.kind) == [.expiresSoon])
        settings.cluster.advertise = Endpoint("192.0.2.99:5071")
        #expect(problems(settings, daysBefore: 800).map(\.kind) == [.missingName])
        settings.cluster.advertise = nil
        let other = try ClusterCertificates.makeAuthority()
        settings.cluster.caFile = folder.folder + "/other.pem"
        try Data(other.certificate).write(to: URL(filePath: folder.folder + "/other.pem"))
        #expect(problems(settings, daysBefore: 800).map(\.kind) == [.untrusted])
    }

    @Test func `existing files stay as they are`() async throws {
        #expect(try await run("node-a", "--address", "127.0.0.1").status == 0)
        let before = try ["node-a.pem", "node-a.key", "ca.pem", "ca.key"].map(contents)
        let again = try await run("node-a", "--address", "127.0.0.1")
        #expect(again.status == 1 && again.complaint.contains("exists already and is unchanged"), "\(again)")
        try FileManager.default.removeItem(atPath: file("node-a.pem"))
        #expect(try await run("node-a", "--address", "127.0.0.1").status == 1, "the key is there")
        try before[0].write(to: URL(filePath: file("node-a.pem")))
        #expect(try ["node-a.pem", "node-a.key", "ca.pem", "ca.key"].map(contents) == before)
    }

    @Test func `an authority without its key or certificate is not replaced`() async throws {
        #expect(try await run("node-a", "--address", "127.0.0.1").status == 0)
        try FileManager.default.moveItem(atPath: file("ca.key"), toPath: folder.folder + "/away")
        let noKey = try await run("node-b", "--address", "127.0.0.1")
        #expect(noKey.status == 1 && noKey.complaint.contains("ca.key is missing"), "\(noKey)")
        try FileManager.default.moveItem(atPath: folder.folder + "/away", toPath: file("ca.key"))
        try FileManager.default.removeItem(atPath: file("ca.pem"))
        let noCertificate = try await run("node-b", "--address", "127.0.0.1")
        #expect(noCertificate.status == 1 && noCertificate.complaint.contains("ca.pem is missing"))
        #expect(!FileManager.default.fileExists(atPath: file("node-b.key")))
    }

    @Test func `wrong words are refused, and make nothing`() async throws {
        for (node, rest, sentence) in [
            ("node a", ["--address", "127.0.0.1"], "1 to 32 letters"), ("../x", ["--address", "127.0.0.1"], "1 to 32"),
            ("node-a", [], "expected an IP address"),
            ("node-a", ["--address", "a.example"], "expected the IP address"),
            ("node-a", ["--address", "0.0.0.0"], "expected the IP address"),
            ("node-a", ["--address", "127.0.0.1", "--days", "0"], "expected 1 to 3650 days"),
            ("node-a", ["--address", "127.0.0.1", "--days", "x"], "expected a number"),
        ] {
            let ended = try await DaemonProgram.run(
                ["cluster", "cert", "--ca", authority, "--node", node] + rest, input: "", in: folder)
            #expect(ended.status == 64 && ended.complaint.contains(sentence), "\(node) \(rest): \(ended)")
        }
        let reserved = try await run("ca", "--address", "127.0.0.1")
        #expect(reserved.status == 1, "\(reserved)")
        #expect(!FileManager.default.fileExists(atPath: authority))
        let nowhere = try await run("node-a", "--address", "127.0.0.1", ca: authority + "/a/b")
        #expect(nowhere.status == 1 && nowhere.complaint.contains("cannot be created"), "\(nowhere)")
    }
}
