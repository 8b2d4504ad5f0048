import Addressing
import Crypto
import Foundation
import LoopTesting
import Reactor
import StoreTesting
import Testing

/// Tests the messages that an operator sees when something is wrong.
@Suite("Diagnoses", .timeLimit(.minutes(10)))
struct DiagnosisTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func run(_ command: String, _ settings: String) async throws -> DaemonProgram.Ended {
        let file = try DaemonProgram.write(settings, in: folder)
        return try await DaemonProgram.run([command, "--config", file], in: folder)
    }

    private func settings(_ rest: String) -> String {
        "domains: [example.net]\nlisten: [udp:127.0.0.1:0]\nstore: \(folder.path)\n"
            + "control: \(folder.folder)/control.sock\n" + rest
    }

    @Test func `check-config reads the files of the settings, and reports the place of a wrong name`() async throws {
        let junk = folder.folder + "/junk.pem"
        try Data("no key".utf8).write(to: URL(fileURLWithPath: junk))
        let ended = try await run(
            "check-config",
            settings(
                """
                push:
                  apns:
                    enabled: true
                    team-id: DEF123GHIJ
                    key-id: ABC123DEFG
                    key-file: \(junk)
                    topics: [com.example.phone]
                    ca-file: /none/ca.pem
                    feedback:
                      endpoint: feedback.example.net:2196
                      cert-file: /none/cert.pem
                      cert-key-file: /none/key.pem
                      ca-file: /none/other.pem
                  fcm:
                    enabled: true
                    service-account-file: \(folder.folder)/none.json
                api:
                  device-registration:
                    webhook-ca-file: /none/webhook.pem
                """))
        #expect(ended.status == 1)
        let lines = ended.complaint.split(separator: "\n").map(String.init)
        for (line, words) in [
            (10, "key-file: "), (10, "\(junk): "), (12, "ca-file: /none/ca.pem: "), (15, "cert-file: /none/cert.pem"),
            (17, "ca-file: /none/other.pem"), (20, "none.json: "), (23, "webhook-ca-file: /none/webhook.pem"),
        ] {
            #expect(lines.contains { $0.contains(".yaml:\(line):") && $0.contains(words) }, "\(line) of \(lines)")
        }
        #expect(lines.count == 7)
    }

    @Test func `serve warns at its start of missing requirements`() async throws {
        let settings = DaemonProgram.settings(
            folder,
            """
              device-registration:
                webhook-ca-file: /none/webhook.pem
            push:
              acrobits:
                enabled: true
                ca-file: /none/ca.pem
            """)
        try await DaemonProgram.with(settings: settings, in: folder) { daemon in
            for words in ["webhook-ca-file: /none/webhook.pem: ", "ca-file: /none/ca.pem: "] {
                #expect(
                    daemon.beginning.contains { $0.contains(" warning ") && $0.contains(words) }, "\(daemon.beginning)")
            }
        }
    }

    @Test(arguments: [
        ("sips:pbx.example.org", "expected a tls address under listen"),
        ("sip:pbx.example.org;transport=tls", "expected a tls address under listen"),
        ("sip:pbx.example.org;transport=ws", "nobody can be called over WebSocket"),
        ("sip:pbx.example.org;transport=tcp", "expected a tcp address under listen"),
        ("sip:192.0.2.10", nil), ("sip:pbx.example.org", nil), ("sip:pbx.example.org;transport=udp", nil),
    ])
    func `an upstream that cannot be reached by any listener is refused`(upstream: String, complaint: String?)
        async throws
    {
        let ended = try await run("check-config", settings("upstream: \(upstream)\n"))
        #expect(ended.status == (complaint == nil ? 0 : 1), "\(ended)")
        if let complaint { #expect(ended.complaint.contains(":5:") && ended.complaint.contains(complaint), "\(ended)") }
    }

    @Test func `an expired certificate, a foreign key, an empty file and a folder are explained in plain words`()
        async throws
    {
        func write(_ name: String, _ bytes: [UInt8]) throws -> String {
            let path = "\(folder.folder)/\(name)"
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            return path
        }
        let (old, good) = (
            try SelfSignedCertificate(hosts: ["old"], validDays: 0), try SelfSignedCertificate(hosts: ["good"])
        )
        let (oldFile, oldKey) = (try write("old.crt", old.certificate), try write("old.key", old.key))
        let (goodFile, goodKey) = (try write("good.crt", good.certificate), try write("good.key", good.key))
        let empty = try write("empty", [])
        for (certificate, key, authority, line, words) in [
            (oldFile, oldKey, goodFile, 12, "api.cert-file: \(oldFile): the certificate expired on 20"),
            (goodFile, oldKey, goodFile, 12, "api.cert-file: \(goodFile): the private key does not belong to"),
            (goodFile, goodKey, oldFile, 9, "ca-file: \(oldFile): the certificate expired on 20"),
            (goodFile, empty, goodFile, 13, "api.key-file: \(empty): no private key in PEM form"),
            (empty, goodKey, goodFile, 12, "api.cert-file: \(empty): no certificate in PEM form"),
            (goodFile, goodKey, folder.folder, 9, "ca-file: \(folder.folder): Is a directory"),
        ] {
            let ended = try await run(
                "check-config",
                settings(
                    """
                    push:
                      fcm:
                        enabled: true
                        body-format: legacy
                        ca-file: \(authority)
                    api:
                      listen: [127.0.0.1:0]
                      cert-file: \(certificate)
                      key-file: \(key)
                    """))
            let lines = ended.complaint.split(separator: "\n")
            #expect(ended.status == 1 && lines.count == 2, "\(ended.complaint)")
            #expect(lines.last?.contains(".yaml:\(line):") == true && lines.last?.contains(words) == true, "\(lines)")
        }
    }

    @Test(arguments: ["tcp", "udp", "api", "control"])
    func `an address or path that is in use is named`(kind: String) async throws {
        try await withLoop { loop in
            let control = folder.folder + "/control.sock"
            let holder = Holder()
            let taken = try await Bench(loop).run { bench in try holder.take(kind, control, on: bench.loop) }
            let ended = try await run(
                "serve",
                "domains: [example.net]\nstore: \(folder.path)\ncontrol: \(control)\n"
                    + (kind == "tcp" || kind == "udp"
                        ? "listen: [\(kind):\(taken)]\n" : "listen: [udp:127.0.0.1:0]\n")
                    + (kind == "api" ? "api:\n  listen: [\(taken)]\n" : ""))
            #expect(ended.status == 1)
            #expect(ended.complaint.contains("\(taken)"), "\(ended.complaint)")
            #expect(ended.complaint.contains("Address already in use"), "\(ended.complaint)")
            await Bench(loop).run { _ in holder.release() }
        }
    }

    @Test func `the push sandbox also names an address that is in use`() async throws {
        try await withLoop { loop in
            let holder = Holder()
            let taken = try await Bench(loop).run { bench in try holder.take("tcp", "", on: bench.loop) }
            for option in ["--listen", "--listen-plain", "--listen-feedback"] {
                var words = ["--state", folder.folder, "--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0"]
                words += [option, taken]
                let ended = try await DaemonProgram.run(words, program: "push-sandbox", in: folder)
                let sentence = "push-sandbox: cannot listen on \(taken): Address already in use\n"
                #expect(ended.status == 1 && ended.complaint == sentence, "\(ended)")
            }
            await Bench(loop).run { _ in holder.release() }
        }
    }

    /// Occupies a port or a path, so that the daemon cannot use it. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses it.
    private final class Holder: @unchecked Sendable {
        private var listener: StreamListener?
        private var socket: UDPSocket?

        func take(_ kind: String, _ control: String, on loop: EventLoop) throws -> String {
            let free = Endpoint(.loopbackV4, 0)
            switch kind {
            case "udp":
                let socket = try UDPSocket(boundTo: free, on: loop)
                self.socket = socket
                return "\(socket.local)"
            case "control":
                listener = try StreamListener(unixPath: control, on: loop, limit: 9) { $0.close() }
                return control
            default:
                let listener = try StreamListener(boundTo: free, on: loop, limit: 9) { $0.close() }
                self.listener = listener
                return "\(listener.local)"
            }
        }

        func release() {
            socket?.close()
            socket = nil
            listener = nil
        }
    }
}
