import Bytes
import Crypto
import Foundation
import Glibc
import JSON
import LoopTesting
import Persistence
import SIPGrammar
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import HTTPServices

/// Tests that every acknowledged change survives `kill -9` without help (rule 1, fault F1).
@Suite("Restarts after kill -9", .timeLimit(.minutes(10)), .serialized)
struct KilledDaemonTests {
    /// Records the acknowledged changes, and kills the daemon when the expected number is reached.
    private actor Journal {
        private(set) var reported: Set<String> = []
        private(set) var removed: Set<String> = []
        /// The removals that were requested, whether or not the daemon answered.
        private(set) var leaving: Set<String> = []
        private(set) var registered: Set<String> = []
        /// The ids of registrations for which the test asked for tracking.
        private(set) var tracked: [String] = []
        private var left: Int
        private let full: @Sendable () -> Void

        init(until count: Int, _ full: @escaping @Sendable () -> Void) {
            left = count
            self.full = full
        }

        func report(_ user: String) { note { reported.insert(user) } }
        func leave(_ user: String) { leaving.insert(user) }
        func remove(_ user: String) { note { removed.insert(user) } }
        func register(_ user: String) { note { registered.insert(user) } }
        func track(_ id: String) { note { tracked.append(id) } }

        private func note(_ change: () -> Void) {
            change()
            left -= 1
            if left == 0 { full() }
        }
    }

    private static let rounds = 8
    private let folder: StoreFolder
    private let key: APIKeySecret

    init() async throws {
        folder = try StoreFolder()
        key = try APIKeySecret.make()
        let stored = try #require(
            APIKey(name: "k", hash: key.hash, scopes: [.tokensReport], createdAt: UnixTime(seconds: 0)))
        try folder.keep([.addKey(stored.stored)])
    }

    private var settings: String {
        DaemonProgram.settings(
            folder,
            """
              connections-per-source: 1000
              mobile-apps:
                shop:
                  id: \(RunningDaemon.app)
                  org: org-1
                  api-token-sha256: [\(String(decoding: Hex.encode(RunningDaemon.hash(of: RunningDaemon.apiToken)), as: UTF8.self))]
                  fcm-param: my-project
            push:
              acrobits:
                enabled: true
                endpoint: http://127.0.0.1:9
            """)
    }

    @Test func `reports, removals, registrations and REGISTERs survive`() async throws {
        var random = SeededGenerator()
        for round in 0..<Self.rounds {
            let daemon = try await DaemonProgram(settings: settings, in: folder)
            let answers = Mailbox<String>()
            let journal = Journal(until: Int.random(in: 30...150, using: &random)) { daemon.kill() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                // Each client ends when the daemon is gone, and a client that fails earlier kills the daemon.
                for number in 0..<4 {
                    group.addTask {
                        defer { daemon.kill() }
                        try await report("r\(round)t\(number)", to: daemon, journal)
                    }
                }
                group.addTask {
                    defer { daemon.kill() }
                    try await track("r\(round)", at: daemon, journal)
                }
                group.addTask {
                    defer { daemon.kill() }
                    try await register("r\(round)s", at: daemon, answers, journal)
                }
                let signal = try await daemon.ended()
                #expect(signal == SIGKILL)
                // The empty text ends the client, because a client over UDP does not see the end of the daemon.
                answers.put("")
                try await group.waitForAll()
            }
            let again = try await DaemonProgram(settings: settings, in: folder)
            let (reported, removed) = await (journal.reported, journal.removed)
            let leaving = await journal.leaving
            for user in reported where !leaving.contains(user) {
                #expect(try again.bindingCount(of: "\(user)@example.net") == 1, "\(user) was reported")
            }
            for user in removed {
                #expect(try again.bindingCount(of: "\(user)@example.net") == 0, "\(user) was removed")
            }
            for user in await journal.registered {
                #expect(try again.bindingCount(of: "\(user)@example.net") == 1, "\(user) has registered")
            }
            for id in await journal.tracked { try await expectEnd(of: id, at: again) }
            again.kill()
            _ = try await again.ended()
        }
        #expect(try folder.integrityProblems().isEmpty)
    }

    @Test(.timeLimit(.minutes(10))) func `SIGTERM ends it although its parent had blocked all signals`() async throws {
        let daemon = try await DaemonProgram(settings: settings, in: folder)
        daemon.terminate()
        #expect(try await daemon.ended() == 0)
    }

    @Test func `a daemon without an owner is killed`() async throws {
        let id = try await DaemonProgram(settings: settings, in: folder).id
        let isGone = Glibc.kill(id, 0) < 0 && errno == ESRCH
        #expect(isGone)
    }

    // MARK: Clients

    /// Sends one report after the other until the daemon no longer answers. After every third report, the function
    /// reports that the account was removed.
    private func report(_ name: String, to daemon: DaemonProgram, _ journal: Journal) async throws {
        for number in 0... {
            let user = "\(name)n\(number)"
            guard
                try await isTaken(
                    "/v1/push-tokens/\(user)/S:1?token_msgs=T\(user)&appid_msgs=a", by: daemon, with: key.text)
            else { return }
            await journal.report(user)
            guard number % 3 == 0 else { continue }
            await journal.leave(user)
            guard try await isTaken("/v1/account-removals/\(user)/S:1", by: daemon, with: key.text) else { return }
            await journal.remove(user)
        }
    }

    private func isTaken(_ target: String, by daemon: DaemonProgram, with key: String) async throws -> Bool {
        let answer = try await TCPClient.answer(
            to: Array(
                "GET \(target) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nConnection: close\r\n\r\n".utf8),
            from: daemon.api)
        return RunningDaemon.statuses(answer) == [200]
    }

    private func track(_ name: String, at daemon: DaemonProgram, _ journal: Journal) async throws {
        for number in 0... {
            let body = """
                {"MobileAppId":"\(RunningDaemon.app)","UserId":"\(name)d\(number)",\
                "ApiToken":"\(RunningDaemon.apiToken)","FcmDeviceToken":"t"}
                """
            let answer = try await TCPClient.answer(
                to: RunningDaemon.post(RunningDaemon.registration, Array(body.utf8), ["x-ms-track-registration: true"]),
                from: daemon.api)
            guard RunningDaemon.statuses(answer) == [202],
                let id = try Self.json(answer)["RegistrationRequestId"]?.string
            else { return }
            await journal.track(id)
        }
    }

    private static func json(_ answer: String) throws -> JSONValue {
        let body = try #require(answer.components(separatedBy: "\r\n\r\n").last)
        return try JSONValue(Array(body.utf8))
    }

    /// Expects that the accepted registration ends at some time. If the daemon had lost the registration, its status
    /// would stay `Pending` forever.
    private func expectEnd(of id: String, at daemon: DaemonProgram) async throws {
        let body = """
            {"RegistrationRequestIds":["\(id)"],"MobileAppId":"\(RunningDaemon.app)",\
            "ApiToken":"\(RunningDaemon.apiToken)"}
            """
        for _ in 0..<2000 {
            let answer = try await TCPClient.answer(
                to: RunningDaemon.post(RunningDaemon.registration + "/status", Array(body.utf8)), from: daemon.api)
            let status = try Self.json(answer).array?.first?["Status"]?.string
            if status == "Failed" || status == "Success" { return }
        }
        Issue.record("\(id) was accepted and is forgotten")
    }

    private func register(
        _ name: String, at daemon: DaemonProgram, _ answers: Mailbox<String>, _ journal: Journal
    ) async throws {
        try await ProgramPhone.with(daemon, answers: answers) { phone in
            for number in 0... {
                let user = "\(name)n\(number)"
                let answer = try await phone.register(user)
                guard !answer.isEmpty else { break }
                if answer.hasPrefix("SIP/2.0 200") { await journal.register(user) }
            }
        }
    }
}
