import ProxyPolicy
import Foundation
import ProxyCore
import ProxyDaemon
import Telemetry
import TestSupport
import Testing

@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests wrong passwords and API keys from outside (threats T7 and T8).
    @Suite("Wrong passwords and keys", .timeLimit(.minutes(10)))
    struct LoginLimitTests {
        private let right = "se%20cret%2B1"

        private func report(
            _ daemon: RunningDaemon, _ user: String, password: String, domain: String = "example.net"
        ) async throws -> String {
            let target =
                "/v1/push-tokens?username=\(user)@\(domain)&password=\(password)&selector=S:1&token_msgs=T2sx&appid_msgs=a"
            return try await daemon.answer("GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        }

        /// Sends a report of a device with the given password, and expects the given status.
        ///
        /// - Returns: the answer.
        @discardableResult
        private func expect(
            _ status: Int, _ daemon: RunningDaemon, _ user: String, password: String, domain: String = "example.net",
            at place: SourceLocation = #_sourceLocation
        ) async throws -> String {
            let answer = try await report(daemon, user, password: password, domain: domain)
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(user), \(password)", sourceLocation: place)
            return answer
        }

        @Test func `after ten wrong passwords a source has to wait, and the right one is not checked`() async throws {
            try await RunningDaemon.with { daemon in
                for number in 0..<10 {
                    try await expect(401, daemon, "100", password: "wrong\(number)")
                }
                for user in ["100", "101"] {
                    let answer = try await expect(429, daemon, user, password: right)
                    let field = answer.split(separator: "\r\n").first { $0.hasPrefix("Retry-After: ") }
                    let seconds = field.flatMap { Int($0.dropFirst("Retry-After: ".count)) } ?? 0
                    #expect((1...7).contains(seconds))
                    #expect(answer.contains("application/problem+json"))
                }
                let count = await daemon.bindingCount()
                #expect(count == 0)
                // A request with an API key is still accepted at this address, because nobody can guess keys.
                try await daemon.expect(
                    200, get: "/v1/push-tokens/100/S:1?token_msgs=T2sx&appid_msgs=a", key: daemon.key.text)
                #expect(!daemon.log.lines.contains { $0.contains("wrong") || $0.contains("cret") })
            }
        }

        @Test func `success restores no attempts, but the user may log in at the address of the success`() async throws
        {
            try await RunningDaemon.with { daemon in
                for number in 0..<10 {
                    try await expect(401, daemon, "10\(number + 1)", password: "x")
                    guard number < 9 else { continue }
                    try await expect(200, daemon, "100", password: right)
                }
                try await expect(429, daemon, "101", password: right)
                try await expect(200, daemon, "100", password: right)
            }
        }

        @Test func `a user is protected from many sources`() async throws {
            try await RunningDaemon.with({
                $0.limits.wrongLoginsPerSource = 0
                $0.limits.wrongLoginsPerUser = 5
            }) { daemon in
                for user in ["100", "nobody"] {
                    for _ in 0..<5 {
                        try await expect(401, daemon, user, password: "x")
                    }
                    // The two texts name the same domain, in lower and upper case.
                    for domain in ["example.net", "EXAMPLE.net"] {
                        try await expect(429, daemon, user, password: right, domain: domain)
                    }
                }
                try await expect(401, daemon, "101", password: "x")
            }
        }

        @Test func `wrong keys are counted, and the right one is still accepted`() async throws {
            try await RunningDaemon.with { daemon in
                var statuses: [Int] = []
                for _ in 0..<12 {
                    statuses.append(try await daemon.get("/v1/dead-tokens", key: try APIKeySecret.make().text))
                }
                #expect(statuses == Array(repeating: 401, count: 10) + [429, 429])
                try await daemon.expect(401, get: "/v1/dead-tokens")
                let right = try await daemon.get("/v1/dead-tokens", key: RunningDaemon.readerKey)
                #expect(right == 200)
                try await expect(429, daemon, "100", password: right == 200 ? self.right : "")
            }
        }

        @Test func `the limit can be switched off`() async throws {
            try await RunningDaemon.with({
                $0.limits.wrongLoginsPerSource = 0
                $0.limits.wrongLoginsPerUser = 0
            }) { daemon in
                for _ in 0..<50 {
                    try await expect(401, daemon, "100", password: "x")
                }
            }
        }

        // MARK: Unknown users

        /// The response times for known and unknown users are compared by `etc/nightly timing`, and the work by
        /// `DigestTests`.
        @Test func `known and unknown users and domains are answered alike`() async throws {
            try await RunningDaemon.with({
                $0.limits.wrongLoginsPerSource = 0
                $0.limits.wrongLoginsPerUser = 0
            }) { daemon in
                let asked = [("100", "example.net"), ("999", "example.net"), ("100", "example.com")]
                var answers: Set<String> = []
                for (user, domain) in asked {
                    let answer = try await report(daemon, user, password: "guess", domain: domain)
                    answers.insert(
                        answer.split(separator: "\r\n").filter { !$0.hasPrefix("Date: ") }.joined(separator: "\n"))
                }
                #expect(answers.count == 1)
            }
        }
    }
}
