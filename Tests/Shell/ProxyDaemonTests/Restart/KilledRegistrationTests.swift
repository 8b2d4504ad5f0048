import Foundation
import Glibc
import JSON
import LoopTesting
import ProviderTesting
import Reactor
import StoreTesting
import TestSupport
import Testing

/// Tests device registration by the real program with `kill -9`, for an app that a command has added.
@Suite("Device registration over kill -9", .timeLimit(.minutes(10)), .serialized)
struct KilledRegistrationTests {
    /// Records the ids of the accepted registrations by user, and kills the daemon when the expected number is reached.
    private actor Journal {
        private(set) var accepted: [String: String] = [:]
        private let count: Int
        private let full: @Sendable () -> Void

        init(until count: Int, _ full: @escaping @Sendable () -> Void) {
            self.count = count
            self.full = full
        }

        func accept(_ user: String, _ id: String) {
            accepted[user] = id
            if accepted.count == count { full() }
        }
    }

    /// The app that the test has added: its id and token as the command printed them, and the URL that receives its
    /// webhooks.
    private struct App {
        let id: String
        let token: String
        let receiver: String

        func body(_ members: String) -> [UInt8] {
            Array(#"{"MobileAppId":"\#(id)","ApiToken":"\#(token)",\#(members)}"#.utf8)
        }
    }

    private static let rounds = 6
    private static let path = RunningDaemon.registration

    private func settings(_ folder: StoreFolder, _ provider: String) -> String {
        DaemonProgram.settings(
            folder,
            """
              connections-per-source: 1000
              device-registration:
                webhook-plain-http: true
                webhook-receivers: [127.0.0.1]
            push:
              fcm:
                enabled: true
                body-format: legacy
                server-key: test
                endpoint: \(provider)
            """)
    }

    @Test func `accepted registrations are completed, and each webhook comes at most once`() async throws {
        let folder = try StoreFolder()
        try await withLoop { loop in
            let outside = Outside(loop)
            let settings = settings(folder, try await outside.open())
            let file = try DaemonProgram.write(settings, in: folder)
            let counts = Locked<[String: Int]>([:])
            let receiver = FakeProvider(loop) { request, _ in
                counts.withLock { $0[request.path, default: 0] += 1 }
                return .answer(202)
            }
            // The proxy in the environment never gets a request, because daemons ignore the environment's proxies.
            let proxy = FakeProvider(loop) { _, _ in .answer(502) }
            let proxyURL = try await proxy.listen()
            let variables = [
                "http_proxy": proxyURL, "https_proxy": proxyURL, "all_proxy": proxyURL, "no_proxy": "", "NO_PROXY": "",
            ]
            let app = try await addApp(file, folder, receiver: try await receiver.listen())

            var last = try await DaemonProgram(settings: settings, in: folder, variables: variables)
            var random = SeededGenerator()
            for round in 0..<Self.rounds {
                let daemon = last
                let journal = Journal(until: Int.random(in: 10...60, using: &random)) { daemon.kill() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<4 {
                        group.addTask { try await register("r\(round)t\(number)", app, at: daemon, journal) }
                    }
                    #expect(try await daemon.ended() == SIGKILL)
                    try await group.waitForAll()
                }
                last = try await DaemonProgram(settings: settings, in: folder, variables: variables)
                for (user, id) in await journal.accepted {
                    #expect(try await outcome(of: id, app, at: last) == "Success", "\(user)")
                    #expect(try last.bindingCount(of: "\(user)@example.net") == 1, "\(user)")
                }
            }
            try await expectWebhook(app, at: last, receiver)
            #expect(counts.withLock { $0.allSatisfy { $0.value == ($0.key == "/last" ? 2 : 1) } })
            #expect(await proxy.connectionCount == 0)
            try await expectRemoval(app, file, folder, at: last)
            last.kill()
            _ = try await last.ended()
            for fake in [receiver, proxy] { await fake.close() }
            await outside.close()
        }
    }

    // MARK: Steps

    /// Runs a command, and returns its output; `nil` if the command failed.
    private func printed(by arguments: [String], _ folder: StoreFolder) async throws -> String? {
        let ended = try await DaemonProgram.run(arguments, in: folder)
        return ended.status == 0 ? ended.output : nil
    }

    /// Adds the app by a command, while no daemon runs.
    private func addApp(_ file: String, _ folder: StoreFolder, receiver: String) async throws -> App {
        let output = try #require(
            try await printed(
                by: ["app", "add", "shop", "--org", "org-1", "--fcm-param", "my-project", "--config", file], folder))
        func value(_ name: String) throws -> String {
            let line = try #require(output.split(separator: "\n").first { $0.hasPrefix(name) })
            return try #require(line.split(separator: " ").last.map { String($0) })
        }
        return App(id: try value("MobileAppId"), token: try value("ApiToken"), receiver: receiver)
    }

    /// Sends one registration after the other until the daemon no longer answers.
    private func register(_ name: String, _ app: App, at daemon: DaemonProgram, _ journal: Journal) async throws {
        for number in 0... {
            let user = "\(name)n\(number)"
            guard let id = try await register(user, app, at: daemon) else { return }
            await journal.accept(user, id)
        }
    }

    /// Registers a device of the user, and returns the request's id; `nil` if the daemon did not answer.
    private func register(_ user: String, _ app: App, at daemon: DaemonProgram) async throws -> String? {
        let answer = try await TCPClient.answer(
            to: RunningDaemon.post(
                Self.path, app.body(#""UserId":"\#(user)","FcmDeviceToken":"token-\#(user)""#),
                ["x-ms-track-registration: true", "x-ms-callback-url: \(app.receiver)/\(user)"]), from: daemon.api)
        guard RunningDaemon.statuses(answer) == [202] else { return nil }
        return try Self.json(answer)["RegistrationRequestId"]?.string
    }

    private static func json(_ answer: String) throws -> JSONValue {
        try JSONValue(Array(try #require(answer.components(separatedBy: "\r\n\r\n").last).utf8))
    }

    private func status(of id: String, _ app: App, at daemon: DaemonProgram) async throws -> JSONValue? {
        let answer = try await TCPClient.answer(
            to: RunningDaemon.post(Self.path + "/status", app.body(#""RegistrationRequestIds":["\#(id)"]"#)),
            from: daemon.api)
        return try Self.json(answer).array?.first
    }

    /// Waits for the outcome of the device registration. The suite's time limit ends the waiting.
    private func outcome(of id: String, _ app: App, at daemon: DaemonProgram) async throws -> String? {
        while true {
            let outcome = try await status(of: id, app, at: daemon)
            if outcome?["Status"] != "Pending" {
                return outcome?["FailureReason"]?.string ?? outcome?["Status"]?.string
            }
            try Task.checkCancellation()
        }
    }

    /// Expects that a running daemon sends a webhook for each registration.
    private func expectWebhook(_ app: App, at daemon: DaemonProgram, _ receiver: FakeProvider) async throws {
        let id = try #require(try await register("last", app, at: daemon))
        #expect(try await outcome(of: id, app, at: daemon) == "Success")
        while try await receiver.requests.next().path != "/last" {}
        let again = try #require(try await register("last", app, at: daemon))
        #expect(try await outcome(of: again, app, at: daemon) == "DuplicateExists")
        while try await receiver.requests.next().path != "/last" {}
    }

    /// Removes the app by a command to the running daemon, after which its token belongs to nobody.
    private func expectRemoval(_ app: App, _ file: String, _ folder: StoreFolder, at daemon: DaemonProgram) async throws
    {
        let list = try await printed(by: ["app", "list", "--config", file], folder)
        #expect(list?.contains("shop") == true && list?.contains(app.id) == true)
        #expect(list?.contains(app.token) == false)
        #expect(try await printed(by: ["app", "remove", "shop", "--config", file], folder) != nil)
        #expect(try await printed(by: ["app", "remove", "shop", "--config", file], folder) == nil)
        #expect(try await printed(by: ["app", "list", "--config", file], folder)?.contains("shop") == false)
        let id = try #require(try await register("removed", app, at: daemon))
        #expect(try await status(of: id, app, at: daemon)?["Status"] == "Pending")
        #expect(try daemon.bindingCount(of: "removed@example.net") == 0)
        #expect(try daemon.bindingCount(of: "last@example.net") == 1)
    }
}
