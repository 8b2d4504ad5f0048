import Addressing
import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import ProxyDaemon
import PushDelivery
import Reactor
import Storage
import StoreTesting
import TestSupport
import Testing

/// Runs the program `sippushd doctor` with one fault at a time.
@Suite("Doctor", .timeLimit(.minutes(10)))
struct DoctorProgramTests {
    /// A scene for `doctor`: a daemon with one fault, or by default with none.
    private struct Scene: Sendable {
        var topics: Set<String>?
        var clockLead: Duration = .zero
        var keyIsForeign = false
        var certificateHosts = ["127.0.0.1"]
        var certificateDays = 100
        var trusted = "127.0.0.1"
        var upstreamAnswers = true
        /// The realm in which the PBX asks for passwords.
        var realm: String?
        var endpoint: String?
        var portIsTaken = false
        var store: String?
        var arguments: [String] = []
        var more = ""
    }

    /// A peer that answers OPTIONS, or only keeps a port busy.
    ///
    /// - The type is `@unchecked Sendable`, because only the loop's thread uses it.
    private final class Peer: @unchecked Sendable {
        private var socket: UDPSocket?

        func open(on loop: EventLoop, answers: Bool, realm: String? = nil) throws -> UInt16 {
            let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            self.socket = socket
            guard answers else { return socket.local.port }
            let answer =
                realm.map {
                    "SIP/2.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"\($0)\", nonce=\"n\"\r\n\r\n"
                }
                ?? "SIP/2.0 405 Method Not Allowed\r\n\r\n"
            try socket.receive { batch in
                for index in 0..<batch.count {
                    socket.queue(Array(answer.utf8), to: batch.source(at: index))
                }
            }
            return socket.local.port
        }

        func close() {
            socket?.close()
            socket = nil
        }
    }

    private struct Report {
        let status: Int32
        let findings: [Finding]
        let text: String

        var wrong: [Finding] { findings.filter { $0.level == .wrong } }
        func words(_ area: String) -> String { wrong.filter { $0.area == area }.map(\.words).joined(separator: "\n") }
        func cure(_ area: String) -> String {
            wrong.filter { $0.area == area }.compactMap(\.cure).joined(separator: "\n")
        }
    }

    private func examine(
        _ scene: Scene, beside: Bool = false,
        around: ([String]) -> (program: String, arguments: [String]) = {
            ("sippushd", $0)
        }
    ) async throws -> Report {
        let folder = try StoreFolder()
        return try await withLoop { loop in
            let keys = TestFolder(path: folder.folder)
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: keys.path + "/ca.pem"))
            let shown = try SelfSignedCertificate(hosts: scene.certificateHosts, validDays: scene.certificateDays)
            try Data(shown.certificate).write(to: URL(fileURLWithPath: keys.path + "/tls.pem"))
            try Data(shown.key).write(to: URL(fileURLWithPath: keys.path + "/tls-key.pem"))
            let providers = Providers(loop)
            let url = try await providers.listen(certificate, topics: scene.topics, clockLead: scene.clockLead)
            _ = try keys.settings(url)
            if scene.keyIsForeign {
                try Data(SelfSignedCertificate(hosts: ["x"]).key).write(
                    to: URL(fileURLWithPath: keys.path + "/key.p8"))
            }
            try Self.close(keys.path + "/key.p8")
            let (pbx, holder) = (Peer(), Peer())
            let upstream = try await Bench(loop).run { bench in
                try pbx.open(on: bench.loop, answers: scene.upstreamAnswers, realm: scene.realm)
            }
            let taken = try await Bench(loop).run { bench in try holder.open(on: bench.loop, answers: false) }
            let settings = """
                domains: ["127.0.0.1"]
                listen: ["udp:127.0.0.1:\(scene.portIsTaken ? taken : 0)", "tls:127.0.0.1:0"]
                store: \(scene.store ?? folder.path)
                control: \(folder.folder)/control.sock
                trusted: ["\(scene.trusted)"]
                upstream: sip:127.0.0.1:\(upstream)
                tls: {cert-file: \(keys.path)/tls.pem, key-file: \(keys.path)/tls-key.pem}
                push:
                  apns:
                    enabled: true
                    team-id: DEF123GHIJ
                    key-id: ABC123DEFG
                    key-file: \(keys.path)/key.p8
                    topics: [com.example.phone]
                    endpoint: \(scene.endpoint ?? url)
                    ca-file: \(keys.path)/ca.pem
                  fcm:
                    enabled: true
                    service-account-file: \(keys.path)/account.json
                    endpoint: \(url)
                    token-endpoint: \(url)/token
                    ca-file: \(keys.path)/ca.pem
                \(scene.more)
                """
            let before = try files(in: folder)
            let report: Report
            if beside {
                report = try await DaemonProgram.with(
                    settings: settings + "\napi: {listen: [\"127.0.0.1:0\"]}", in: folder
                ) {
                    _ in try await run(scene, settings, folder, around)
                }
            } else {
                report = try await run(scene, settings, folder, around)
                // The command `doctor` must change and create no file.
                let others = Set(try files(in: folder)).subtracting(before)
                #expect(
                    others.allSatisfy { $0 == "sippushd.yaml" || $0.hasSuffix(".in") || $0.hasSuffix(".out") },
                    "\(others)")
            }
            await Bench(loop).run { _ in
                pbx.close()
                holder.close()
            }
            await providers.close()
            return report
        }
    }

    /// Restricts the file, so that only its owner may read it.
    private static func close(_ path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    private func files(in folder: StoreFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.folder)
    }

    private func run(
        _ scene: Scene, _ settings: String, _ folder: StoreFolder,
        _ around: ([String]) -> (program: String, arguments: [String])
    ) async throws -> Report {
        let file = try DaemonProgram.write(settings, in: folder)
        let (program, arguments) = around(["doctor", "--config", file, "--json"] + scene.arguments)
        let ended = try await DaemonProgram.run(arguments, program: program, in: folder)
        let findings = try JSONDecoder().decode([Finding].self, from: Data(ended.output.utf8))
        return Report(status: ended.status, findings: findings, text: ended.output)
    }

    // MARK: Nothing is wrong

    @Test func `nothing is wrong, without a daemon and beside one`() async throws {
        for beside in [false, true] {
            let report = try await examine(Scene(), beside: beside)
            #expect(report.wrong.isEmpty, "\(report.wrong)")
            // The report complains only that there is no user yet, and perhaps about a small buffer.
            #expect(report.status == 1)
            for area in ["provider apns", "provider fcm", "clock", "upstream", "files", "disk", "ports"]
            where !beside || area != "ports" {
                #expect(report.findings.contains { $0.area == area && $0.level != .wrong }, "\(area): \(report.text)")
            }
            let daemon = report.findings.first { $0.area == "daemon" }
            #expect(daemon?.level == (beside ? .ok : .note), "\(report.text)")
            // The report of `sippushd doctor` must contain no secret.
            for secret in [TestKeys.rsa2048, TestKeys.rfc7515P256] {
                let line = secret.split(separator: "\n").dropFirst().first ?? "none"
                #expect(!report.text.contains(line))
            }
        }
    }

    // MARK: One thing is wrong

    @Test func `a wrong key`() async throws {
        let report = try await examine(Scene(keyIsForeign: true))
        #expect(report.status == 2)
        #expect(Set(report.wrong.map(\.area)) == ["provider apns", "provider apns.dev"])
        #expect(report.words("provider apns").contains("InvalidProviderToken"))
        #expect(report.cure("provider apns").contains("key-id, team-id and key-file"))
    }

    @Test func `a source of users without the right columns, and a PBX with another realm`() async throws {
        let folder = try TemporaryFolder()
        let database = try Connection(path: folder.file("users.db"))
        try database.execute("CREATE TABLE subscriber (username, domain, ha1, password)")
        func users(_ query: String) -> String {
            """
            users:
                  order: [pbx]
                  sources:
                    pbx: { database: "sqlite:\(folder.file("users.db"))", query: "\(query)" }
            """
        }
        var scene = Scene(realm: "asterisk")
        scene.more = users("SELECT username, ha1 AS hash FROM subscriber WHERE username = :user")
        let report = try await examine(scene)
        #expect(report.words("users").contains("its columns: username, hash"))
        #expect(report.cure("users").contains("ha1_sha256 or password, by AS"))
        let note = try #require(report.findings.first { $0.words.contains("the PBX asks in realm asterisk") })
        #expect(note.cure?.contains("set digest.realm to asterisk") == true)
        scene.more = users("kamailio-subscriber")
        let right = try await examine(scene)
        #expect(right.wrong.isEmpty && right.findings.contains { $0.area == "users" && $0.level == .ok })
        scene.more = users("SELECT ha1 FROM missing WHERE username = :user")
        #expect(try await examine(scene).words("users").contains("no such table: missing"))
        folder.remove()
    }

    @Test func `a wrong topic`() async throws {
        let report = try await examine(Scene(topics: ["com.example.other"]))
        #expect(Set(report.wrong.map(\.area)) == ["provider apns", "provider apns.dev"])
        #expect(report.words("provider apns").contains("TopicDisallowed"))
        #expect(report.cure("provider apns").contains("Correct topics"))
    }

    @Test func `a provider that is not in DNS`() async throws {
        let report = try await examine(Scene(endpoint: "https://nobody.invalid"))
        #expect(Set(report.wrong.map(\.area)) == ["provider apns", "provider apns.dev"])
        #expect(report.words("provider apns").contains("nobody.invalid"))
        #expect(!report.cure("provider apns").isEmpty)
    }

    @Test func `a clock that is a day off`() async throws {
        for lead in [-86_400, 86_400] {
            let report = try await examine(Scene(clockLead: .seconds(lead)))
            #expect(report.wrong.contains { $0.area == "clock" }, "\(report.wrong)")
            #expect(report.words("clock").contains("8640") || report.words("clock").contains("8639"))
            #expect(report.words("clock").contains(lead < 0 ? "ahead of" : "behind"))
            #expect(report.cure("clock").contains("timedatectl"))
        }
    }

    @Test func `a port that is taken`() async throws {
        let report = try await examine(Scene(portIsTaken: true))
        #expect(report.wrong.map(\.area) == ["ports"])
        // The report must name the process that uses the port.
        #expect(
            report.words("ports").contains("(process \(ProcessInfo.processInfo.processIdentifier))"), "\(report.wrong)")
    }

    @Test func `an expired certificate`() async throws {
        let report = try await examine(Scene(certificateDays: 0))
        #expect(Set(report.wrong.map(\.area)) == ["certificates", "configuration"])
        #expect(report.words("certificates").contains("it expired on"))
        #expect(report.cure("certificates").contains("Renew the certificate"))
    }

    @Test func `a certificate without the name`() async throws {
        let report = try await examine(Scene(certificateHosts: ["sip.example.org"]))
        #expect(report.wrong.map(\.area) == ["certificates"])
        #expect(report.words("certificates").contains("no certificate covers this name"))
    }

    @Test func `a PBX that is not trusted`() async throws {
        let report = try await examine(Scene(trusted: "192.0.2.0/24"))
        #expect(report.wrong.map(\.area) == ["trusted"])
        #expect(report.cure("trusted").contains("Add 127.0.0.1 to trusted"))
    }

    @Test func `a dead upstream`() async throws {
        let report = try await examine(Scene(upstreamAnswers: false))
        #expect(report.wrong.map(\.area) == ["upstream"])
        #expect(report.words("upstream").contains("does not answer OPTIONS"))
    }

    @Test func `files that the service may not read`() async throws {
        let report = try await examine(Scene(arguments: ["--user", "nobody"]))
        #expect(Set(report.wrong.map(\.area)) == ["files"])
        #expect(report.words("files").contains("key.p8"))
        #expect(report.cure("files").contains("chgrp "))
    }

    @Test func `a key that lies where the unit hides it, and one that it does not load`() async throws {
        let folder = try TemporaryFolder()
        let unit = try folder.write(
            Array("[Service]\nPrivateTmp=yes\nProtectHome=yes\nUser=root\nLoadCredential=a:/none\n".utf8),
            to: "sippushd.service")
        let report = try await examine(
            Scene(
                arguments: ["--unit", unit],
                more:
                    "api: {cert-file: /run/credentials/sippushd.service/b, key-file: /run/credentials/sippushd.service/a, listen: []}"
            ))
        #expect(report.words("files").contains("LoadCredential= of the unit does not name b"))
        #expect(report.words("files").contains("names /none, which does not exist"))
        if folder.path.hasPrefix("/tmp/") { #expect(report.words("files").contains("PrivateTmp= in the unit")) }
    }

    @Test func `settings with a mistake`() async throws {
        let report = try await examine(Scene(more: "lisen: []"))
        #expect(report.findings.map(\.area) == ["configuration"] && report.status == 2)
        #expect(report.words("configuration").contains("listen"))
    }

    /// Whether the machine allows tests to create their own mounts.
    private static func mayMount() async -> Bool {
        guard let folder = try? StoreFolder(), FileManager.default.fileExists(atPath: "/usr/bin/unshare") else {
            return false
        }
        let ended = try? await DaemonProgram.run(
            ["-m", "mount", "-t", "tmpfs", "none", folder.folder], program: "/usr/bin/unshare", in: folder)
        return ended?.status == 0
    }

    @Test(.enabled("needs mounts of its own") { await DoctorProgramTests.mayMount() })
    func `a full disk`() async throws {
        let disk = try TemporaryFolder()
        let report = try await examine(Scene(store: disk.path + "/store.db")) { words in
            let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            let program = URL(filePath: own).deletingLastPathComponent().appending(path: "sippushd").path
            let script =
                "mount -t tmpfs -o size=64k none \(disk.path); head -c 1m /dev/zero > \(disk.path)/a 2>/dev/null; exec \"$@\""
            return ("/usr/bin/unshare", ["-m", "sh", "-c", script, "sh", program] + words)
        }
        #expect(report.wrong.map(\.area) == ["disk"], "\(report.wrong)")
        #expect(report.cure("disk").contains("df -h \(disk.path)"))
    }

    // MARK: check-config

    @Test func `check-config looks with the eyes of the service`() async throws {
        let folder = try StoreFolder()
        let key = folder.folder + "/key.pem"
        let made = try SelfSignedCertificate(hosts: ["a"])
        try Data(made.certificate).write(to: URL(fileURLWithPath: folder.folder + "/cert.pem"))
        try Data(made.key).write(to: URL(fileURLWithPath: key))
        try Self.close(key)
        let file = try DaemonProgram.write(
            DaemonProgram.settings(folder, "  cert-file: \(folder.folder)/cert.pem\n  key-file: \(key)"), in: folder)
        let good = try await DaemonProgram.run(["check-config", "--config", file], in: folder)
        #expect(good.status == 0, "\(good)")
        let bad = try await DaemonProgram.run(
            ["check-config", "--config", file, "--as-service", "--user", "nobody"], in: folder)
        #expect(bad.status == 1)
        #expect(bad.complaint.contains("api.key-file: nobody cannot read \(key)"), "\(bad.complaint)")
        #expect(bad.complaint.contains(" => chgrp "))
    }
}
