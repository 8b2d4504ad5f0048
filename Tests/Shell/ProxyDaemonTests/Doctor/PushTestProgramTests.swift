import Addressing
import Control
import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import PushSandbox
import StoreTesting
import Testing

/// Runs the program `sippushd push test`, which sends a test push through a running daemon.
@Suite("Test pushes of the program", .timeLimit(.minutes(10)))
struct PushTestProgramTests {
    private static let token = "a-long-token-that-nobody-may-see"

    private func withDaemon(
        plans: [String: String] = [:],
        _ body: (_ run: ([String], String) async throws -> DaemonProgram.Ended, DaemonProgram, Providers) async throws
            -> Void
    ) async throws {
        let folder = try StoreFolder()
        try await withLoop { loop in
            let keys = TestFolder(path: folder.folder)
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: keys.path + "/ca.pem"))
            let providers = Providers(loop)
            let url = try await providers.listen(certificate, plans: plans)
            _ = try keys.settings(url)
            let settings = DaemonProgram.settings(
                folder,
                """
                push:
                  fcm:
                    enabled: true
                    service-account-file: \(keys.path)/account.json
                    endpoint: \(url)
                    token-endpoint: \(url)/token
                    ca-file: \(keys.path)/ca.pem
                """)
            try await DaemonProgram.with(settings: settings, in: folder) { daemon in
                try await body(
                    { words, input in
                        try await DaemonProgram.run(
                            words + ["--config", folder.folder + "/sippushd.yaml"], input: input, in: folder)
                    }, daemon, providers)
            }
            await providers.close()
        }
    }

    @Test func `a token from standard input gets a push, and explain finds it`() async throws {
        try await withDaemon { run, _, providers in
            let ended = try await run(["push", "test", "--token", "-", "--provider", "fcm"], Self.token + "\n")
            #expect(ended.status == 0, "\(ended)")
            #expect(ended.output.contains("the provider accepted the push"))
            #expect(ended.output.contains("sent      POST https://127.0.0.1:"))
            // The output of `push test` shows only the first characters of the token.
            #expect(ended.output.contains("fcm:a-lo…(32)") && !ended.output.contains("a-long-token"))
            #expect(await providers.records.filter { $0.token == Self.token }.count == 1)
            let code = try #require(ended.output.firstMatch(of: /sippushd explain ([0-9a-f-]{36})/)?.1)
            let explained = try await run(["explain", String(code)], "")
            #expect(explained.output.contains("Test push \(code) to a token"), "\(explained)")
            #expect(explained.output.contains("ordered by push test"))
        }
    }

    @Test func `what the provider refuses comes with advice`() async throws {
        try await withDaemon(plans: [
            Self.token: #"{"status":403,"reason":"SENDER_ID_MISMATCH"}"#
        ]) { run, _, _ in
            let ended = try await run(["push", "test", "--token", Self.token, "--provider", "fcm"], "")
            #expect(ended.status == 1)
            #expect(ended.output.contains("belongs to another app: SENDER_ID_MISMATCH"), "\(ended)")
            #expect(ended.output.contains("=> The phone's app is not the one of push.fcm"))
        }
    }

    @Test func `users without a phone, unknown providers and missing words are told`() async throws {
        try await withDaemon { run, _, _ in
            for (words, status, text) in [
                (["bob"], 1, "bob@example.net has no device"), ([], 64, "expected one argument"),
                (["--token", "x"], 64, "expected --provider"),
                (["--provider", "fcm"], 64, "allowed only together with --token"),
                (["--token", "x", "--provider", "pigeon"], 1, "no provider is called pigeon"),
                (["--token", "-", "--provider", "fcm"], 1, "the token is empty"),
            ] as [([String], Int32, String)] {
                let ended = try await run(["push", "test"] + words, "")
                #expect(ended.status == status && ended.complaint.contains(text), "\(words): \(ended)")
            }
        }
    }

    @Test func `provider list says since when the credentials work`() async throws {
        try await withDaemon { run, _, _ in
            var output = ""
            // The test waits until the daemon has tried the credentials of its push apps, a few seconds after its
            // start.
            while !output.contains("the credentials work since 20") {
                output = try await run(["provider", "list"], "").output
            }
            #expect(output.contains("fcm"))
        }
    }
}
