import Addressing
import Bytes
import JSON
import ProxyCore
import ProxyDaemon
import ProxyPolicy
import ProxyRuntime
import Reactor
import Registration
import Settings
import Storage
import StoreTesting
import TestSupport
import Testing

@testable import Control
@testable import HTTPServices
@testable import UserSources

extension RunningDaemonSuites {
    /// Tests links with which phones take accounts, over the whole daemon (T48).
    @Suite("Links for phones", .timeLimit(.minutes(10)))
    struct ProvisioningTests {
        private struct Link {
            let url: String
            /// The path on the API.
            let path: String
            let token: String
        }

        private static let linphone = "X-Linphone-Provisioning: 1\r\nUser-Agent: Linphone/5\r\n"

        /// Makes a link with the key of an administrator.
        private func link(_ daemon: RunningDaemon, _ body: String = "") async throws -> Link {
            let answer = try await post(daemon, body)
            #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
            let json = try JSONValue(Array(self.body(answer).utf8))
            let url = try #require(json["url"]?.string)
            let token = try #require(url.split(separator: "/").last.map(String.init))
            #expect(url == "http://\(daemon.api)/provision/\(token)")
            #expect(json["user"]?.string == "100@example.net")
            return Link(url: url, path: "/provision/\(token)", token: token)
        }

        private func post(
            _ daemon: RunningDaemon, _ body: String, user: String = "100@example.net"
        ) async throws -> String {
            try await daemon.answer(
                "POST /v1/users/\(user)/provisioning HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(RunningDaemon.adminKey)\r\n"
                    + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)")
        }

        private func body(_ answer: String) -> String {
            answer.firstRange(of: "\r\n\r\n").map { String(answer[$0.upperBound...]) } ?? ""
        }

        /// Asks for the account as a phone or another program does.
        private func take(
            _ daemon: RunningDaemon, _ path: String, _ fields: String = linphone, method: String = "GET"
        ) async throws -> String {
            try await daemon.answer("\(method) \(path) HTTP/1.1\r\nHost: a\r\n\(fields)Connection: close\r\n\r\n")
        }

        private func ha1(_ daemon: RunningDaemon) async -> [DigestAlgorithm: ByteString]? {
            await daemon.door.ask(.everything) { engine, _ in
                engine.users.user(named: ByteString("100"), realm: ByteString("example.net"))?.ha1
            }
        }

        @Test func `a phone takes the account once, and the second use is told`() async throws {
            try await RunningDaemon.with { daemon async throws in
                let link = try await link(daemon)
                let answer = try await take(daemon, link.path)
                #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.contains("\r\nCache-Control: no-store\r\n"))
                #expect(answer.contains("\r\nReferrer-Policy: no-referrer\r\n"))
                let md5 = try #require(await ha1(daemon)?[.md5])
                #expect(answer.contains("<entry name=\"ha1\" overwrite=\"true\">\(md5)</entry>"))
                #expect(!answer.contains(RunningDaemon.password))
                let second = try await take(daemon, link.path)
                #expect(second.hasPrefix("HTTP/1.1 410 ") && !second.contains("ha1"))
                #expect(
                    daemon.log.lines.contains {
                        $0.contains("warning somebody opened a provisioning link that was already used")
                    })
                #expect(daemon.log.lines.contains { $0.contains("a phone got its account") && $0.contains("100@") })
                #expect(!daemon.log.lines.contains { $0.contains(link.token) })
            }
        }

        @Test func `browsers, previews and HEAD do not use a link, and learn nothing about it`() async throws {
            try await RunningDaemon.with { daemon async throws in
                let link = try await link(daemon)
                let others = [
                    "", "User-Agent: WhatsApp/2\r\n", "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n",
                    Self.linphone + "Sec-Purpose: prefetch\r\n",
                ]
                for fields in others {
                    let real = try await take(daemon, link.path, fields)
                    let invented = try await take(daemon, "/provision/" + String(repeating: "A", count: 43), fields)
                    #expect(real.hasPrefix("HTTP/1.1 200 ") && real.contains("text/html") && !real.contains("ha1"))
                    #expect(body(real) == body(invented))
                }
                #expect(try await take(daemon, link.path, method: "HEAD").hasSuffix("\r\n\r\n"))
                #expect(try await take(daemon, link.path).contains("ha1"))
            }
        }

        @Test func `unknown, expired, revoked and replaced links get one answer`() async throws {
            try await RunningDaemon.with { daemon async throws in
                let unknown = try await take(daemon, "/provision/" + String(repeating: "A", count: 43))
                #expect(unknown.hasPrefix("HTTP/1.1 404 "))
                let first = try await link(daemon)
                let second = try await link(daemon)
                #expect(body(try await take(daemon, first.path)) == body(unknown))
                try await daemon.expect(
                    200, get: "/v1/users/100@example.net/provisioning", key: RunningDaemon.adminKey, method: "DELETE")
                #expect(body(try await take(daemon, second.path)) == body(unknown))
                try await daemon.expect(
                    404, get: "/v1/users/100@example.net/provisioning", key: RunningDaemon.adminKey, method: "DELETE")
            }
        }

        @Test func `unknown links count as wrong logins, and a right link works all the same`() async throws {
            try await RunningDaemon.with({ $0.limits.wrongLoginsPerSource = 3 }) { daemon async throws in
                let link = try await link(daemon)
                var statuses: [String] = []
                for number in 0..<5 {
                    let path = "/provision/" + String(repeating: "\(number)", count: 43)
                    statuses.append(String(try await take(daemon, path).dropFirst(9).prefix(3)))
                }
                #expect(statuses == ["404", "404", "404", "429", "429"])
                #expect(try await take(daemon, link.path).hasPrefix("HTTP/1.1 200 "))
            }
        }

        @Test func `of phones that ask at the same time, exactly one gets the account`() async throws {
            try await RunningDaemon.with { daemon async throws in
                let link = try await link(daemon, #"{"newPassword":true}"#)
                var answers: [String] = []
                try await withThrowingTaskGroup(of: String.self) { group in
                    for _ in 0..<12 { group.addTask { try await take(daemon, link.path) } }
                    for try await answer in group { answers.append(answer) }
                }
                #expect(answers.count { $0.hasPrefix("HTTP/1.1 200 ") } == 1)
                #expect(answers.count { $0.hasPrefix("HTTP/1.1 410 ") } == 11)
                // The account that one phone got has the hashes that the daemon accepts.
                let md5 = try #require(await ha1(daemon)?[.md5])
                #expect(answers.contains { $0.contains("\(md5)") })
            }
        }

        @Test func `a new password begins with the use of the link, and Acrobits' apps get it`() async throws {
            try await RunningDaemon.with { daemon async throws in
                let old = await ha1(daemon)
                let kept = try await link(daemon)
                let unfit = try await take(daemon, kept.path + "?client=acrobits", "")
                #expect(unfit.hasPrefix("HTTP/1.1 409 "))
                #expect(daemon.log.lines.contains { $0.contains("make the link with the option '--new-password'") })
                let link = try await link(daemon, #"{"newPassword":true,"expiresAfter":60}"#)
                #expect(await ha1(daemon) == old)
                let answer = try await take(daemon, link.path + "?client=acrobits", "")
                #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
                let found = try #require(answer.firstMatch(of: /<password>([A-Za-z0-9]{24})<\/password>/))
                let new = try await daemon.get("/v1/push-tokens?username=100&selector=S&password=\(found.1)")
                #expect(new == 200)
                #expect(await ha1(daemon) != old)
                #expect(!daemon.log.lines.contains { $0.contains(found.1) })
            }
        }

        @Test func `a link ends when its user is removed or gets another password`() async throws {
            try await RunningDaemon.with({ $0.admin.listen = [Endpoint(.loopbackV4, 0)] }) { daemon async throws in
                let first = try await link(daemon)
                let body = #"{"name":"100@example.net","password":"other"}"#
                #expect(try await daemon.order("PUT", "/v1/users", body).status == 200)
                #expect(try await take(daemon, first.path).hasPrefix("HTTP/1.1 404 "))
                let second = try await link(daemon)
                #expect(try await daemon.order("DELETE", "/v1/users/100@example.net").status == 200)
                #expect(try await take(daemon, second.path).hasPrefix("HTTP/1.1 404 "))
                #expect(try await post(daemon, "").hasPrefix("HTTP/1.1 404 "))
                let list = try await daemon.order("GET", "/v1/provisioning")
                #expect(list.body == #"{"links":[]}"#, "\(list)")
            }
        }

        @Test func `the list shows links without their tokens`() async throws {
            try await RunningDaemon.with({ $0.admin.listen = [Endpoint(.loopbackV4, 0)] }) { daemon async throws in
                let used = try await link(daemon)
                _ = try await take(daemon, used.path)
                let open = try await link(daemon)
                let text = try await daemon.order("GET", "/v1/provisioning").body
                let links = try #require(try JSONValue(Array(text.utf8))["links"]?.array)
                #expect(links.count == 2 && links.allSatisfy { $0["createdBy"]?.string == "boss" })
                #expect(links.count { $0["usedAt"] != nil } == 1)
                #expect(!text.contains(used.token) && !text.contains(open.token))
                let page = try await daemon.order("GET", "/v1/provisioning?limit=1").body
                #expect(try JSONValue(Array(page.utf8))["next"]?.integer == 1)
            }
        }

        @Test func `wrong requests get 400, and users of other sources a cure`() async throws {
            var source = UserSourceSettings()
            source.domains = ["example.org"]
            source.url = "http://127.0.0.1:9/"
            try await RunningDaemon.with({ settings in
                settings.users.sources["pbx"] = source
                settings.users.order = ["pbx"]
            }) { daemon async throws in
                for body in [#"{"expiresAfter":59}"#, #"{"expiresAfter":604801}"#, "x", #"{"newPassword":1}"#] {
                    #expect(try await post(daemon, body).hasPrefix("HTTP/1.1 400 "), "\(body)")
                }
                #expect(try await post(daemon, "", user: "nobody@example.net").hasPrefix("HTTP/1.1 404 "))
                #expect(try await post(daemon, "", user: "100@elsewhere.example").hasPrefix("HTTP/1.1 404 "))
                let outside = try await post(daemon, "", user: "100@example.org")
                #expect(outside.hasPrefix("HTTP/1.1 409 ") && outside.contains("the source pbx of users"))
                #expect(outside.contains("sippushd user add"))
            }
        }

        @Test(.enabled(if: StoreFolder.isSQLite, "the test is about SQLite's file"))
        func `a use that cannot be stored gives no account, and the link stays unused`() async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder)
            do {
                let link = try await link(daemon)
                let other = try Connection(path: folder.path)
                try other.execute(
                    "CREATE TRIGGER no BEFORE UPDATE ON provision_link BEGIN SELECT raise(ABORT, 'no'); END")
                let refused = try await take(daemon, link.path)
                #expect(refused.hasPrefix("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: "))
                #expect(!refused.contains("ha1"))
                try other.execute("DROP TRIGGER no")
                #expect(try await take(daemon, link.path).hasPrefix("HTTP/1.1 200 "))
            } catch {
                try await daemon.stop()
                throw error
            }
            try await daemon.stop()
        }

        @Test func `after a restart, a used link stays used, and a new password has ended the unused link`()
            async throws
        {
            let folder = try StoreFolder()
            var daemon = try await RunningDaemon.start(folder)
            let used = try await link(daemon)
            #expect(try await take(daemon, used.path).hasPrefix("HTTP/1.1 200 "))
            let unused = try await link(daemon)
            try await daemon.stop()
            // RunningDaemon writes its user again before each start, as an import does, so the unused link ends.
            daemon = try await RunningDaemon.start(folder)
            #expect(try await take(daemon, used.path).hasPrefix("HTTP/1.1 410 "))
            #expect(try await take(daemon, unused.path).hasPrefix("HTTP/1.1 404 "))
            try await daemon.stop()
        }
    }
}
