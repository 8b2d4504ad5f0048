import Crypto
import Foundation
import HTTPClient
import HTTPSemantics
import LoopTesting
import StoreTesting
import Testing

/// Tests SIGHUP with the real program.
@Suite("Reading certificates again", .timeLimit(.minutes(10)))
struct ReloadTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private var settings: String {
        DaemonProgram.settings(
            folder,
            """
              cert-file: \(folder.folder)/cert.pem
              key-file: \(folder.folder)/key.pem
            """)
    }

    private func renew(_ name: String) throws {
        let made = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        for file in ["cert.pem", name] {
            try Data(made.certificate).write(to: URL(filePath: "\(folder.folder)/\(file)"))
        }
        try Data(made.key).write(to: URL(filePath: folder.folder + "/key.pem"))
    }

    @Test func `new connections get the new certificate, and without one the old`() async throws {
        try renew("first.pem")
        try await DaemonProgram.with(settings: settings, in: folder) { try await check($0) }
    }

    @Test func `settings that need a restart are named in the log`() async throws {
        let before = DaemonProgram.settings(folder)
        try await DaemonProgram.with(settings: before, in: folder) { daemon in
            let changes = """

                log: {level: info}
                missed-calls: {after-late-invite: list}
                registrar: {max-contacts: 7}
                limits: {calls: 7, memory: 7}
                """
            _ = try DaemonProgram.write(before + changes, in: folder)
            let said = try await daemon.reload().filter { $0.contains("takes effect only after a restart") }
            #expect(said.count == 2, "\(said)")
            for key in ["registrar.max-contacts", "limits.memory"] {
                #expect(said.contains { $0.contains("setting=\(key)") }, "\(said)")
            }
        }
    }

    private func check(_ daemon: DaemonProgram) async throws {
        try await withLoop { loop async throws in
            let session = await Bench(loop).run { HTTPSession(on: $0.loop) }
            /// Whether the daemon presents a certificate with the given name to a new connection.
            func isServed(_ name: String) async throws -> Bool {
                var request = HTTPClientRequest(url: "https://\(daemon.api)/healthz")
                request.route.authorityFile = "\(folder.folder)/\(name)"
                request.headers = [HTTPField("Connection", "close")]
                return (try? await session.response(to: request).status) == 200
            }
            #expect(try await isServed("first.pem"))
            try renew("second.pem")
            #expect(try await daemon.reload().count == 1)
            #expect(try await isServed("second.pem"))
            #expect(try await !isServed("first.pem"))
            try Data("no certificate".utf8).write(to: URL(filePath: folder.folder + "/cert.pem"))
            let said = try await daemon.reload()
            #expect(
                said.contains { $0.contains("the certificate was not reloaded, so the old certificate stays in use") },
                "\(said)")
            #expect(try await isServed("second.pem"))
            await Bench(loop).run { _ in session.close() }
        }
    }
}
