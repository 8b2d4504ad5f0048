import HTTPServer
import ProxyDaemon
import Testing

@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests each limit as an outside client: with a value just below it, exactly at it, and just above it. Other
    /// suites test the fields of token reports and batches.
    @Suite("Limits of requests", .timeLimit(.minutes(10)))
    struct RequestLimitTests {
        private struct Row: Sendable {
            let name: String
            let limit: Int
            /// A function that makes a request of the given size.
            let request: @Sendable (Int) -> [UInt8]
            /// The expected statuses for a request at the limit, and above the limit.
            let statuses: (Int, Int)
        }

        private static func text(_ count: Int, _ letter: String = "a") -> String {
            String(repeating: letter, count: max(count, 0))
        }

        /// Makes a clean-up request for a user that does not exist. The text `more` extends the request to the needed
        /// length.
        private static func cleanup(_ more: String, user: String = "nobody") -> String {
            "{\"MobileAppId\":\"\(RunningDaemon.app)\",\"UserId\":\"\(user)\",\"ApiToken\":\"\(RunningDaemon.apiToken)\"\(more)}"
        }

        private static func post(_ path: String, _ body: String, _ fields: [String] = []) -> [UInt8] {
            RunningDaemon.post(RunningDaemon.registration + path, Array(body.utf8), fields)
        }

        private static func chunked(_ path: String, _ chunks: [String]) -> [UInt8] {
            let body = (chunks + [""]).map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined()
            return Array(
                ("POST \(RunningDaemon.registration)\(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    + "Transfer-Encoding: chunked\r\n\r\n\(body)").utf8)
        }

        private static func get(_ head: String) -> [UInt8] {
            Array("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(head)\r\n".utf8)
        }

        private static func page(_ target: String) -> [UInt8] {
            Array(
                ("GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    + "Authorization: Bearer \(RunningDaemon.adminKey)\r\n\r\n").utf8)
        }

        /// Extends a body to exactly the given number of bytes.
        private static func padded(_ body: String, to count: Int) -> String {
            body + text(count - body.utf8.count, " ")
        }

        private static let rows = [
            Row(
                name: "bytes of a head", limit: 16 << 10,
                request: { count in
                    let rest = get("X: \r\n").count
                    return get("X: \(text(count - rest))\r\n")
                }, statuses: (200, 431)),
            Row(
                name: "bytes of a target within the head", limit: 16 << 10,
                request: { count in
                    let rest = "GET /healthz? HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                    return Array(
                        rest.replacing("healthz?", with: "healthz?\(text(count - rest.utf8.count))").utf8)
                }, statuses: (200, 431)),
            Row(
                name: "header fields", limit: 100,
                request: { count in get(text(count - 2, "X: y\r\n")) }, statuses: (200, 431)),
            Row(
                name: "bytes of a body", limit: 1 << 20,
                request: { post("/cleanup", padded(cleanup(""), to: $0)) }, statuses: (202, 413)),
            Row(
                name: "bytes of a chunked body with its frame", limit: 1 << 20,
                // The size counts the chunk-size line with five digits, the line ends after size and chunk, and the
                // last chunk.
                request: { chunked("/cleanup", [padded(cleanup(""), to: $0 - 5 - 2 - 2 - 1 - 2 - 2)]) },
                statuses: (202, 413)),
            Row(
                name: "levels of JSON", limit: 32,
                request: { count in
                    post("/cleanup", cleanup(",\"x\":" + text(count - 1, "[") + text(count - 1, "]")))
                }, statuses: (202, 400)),
            Row(
                name: "values of JSON", limit: 50_000,
                // The daemon's limit counts the elements, and also the object, its three members and the array as
                // values.
                request: { count in
                    post("/cleanup", cleanup(",\"x\":[" + text(count - 6, "0,") + "0]"))
                }, statuses: (202, 400)),
            Row(
                name: "devices of a batch", limit: 100,
                request: { count in
                    post(
                        "/cleanup/batch",
                        "[" + Array(repeating: cleanup(""), count: count).joined(separator: ",") + "]")
                }, statuses: (202, 400)),
            Row(
                name: "ids of a question for outcomes", limit: 1000,
                request: { count in
                    let ids = Array(repeating: "\"\(RunningDaemon.app)\"", count: count).joined(separator: ",")
                    return post("/status", cleanup(",\"RegistrationRequestIds\":[\(ids)]"))
                }, statuses: (200, 400)),
            Row(
                name: "fields for a webhook", limit: 32,
                request: { count in
                    let fields = (0..<count).map { "\"x\($0)\":\"y\"" }.joined(separator: ",")
                    return post(
                        "", cleanup(",\"FcmDeviceToken\":\"t\"", user: "a b"),
                        ["x-ms-callback-url-headers: {\(fields)}"])
                }, statuses: (202, 400)),
            Row(
                name: "bytes of a report's body", limit: 16 << 10,
                request: { count in
                    let body = "username=u&selector=S:1&x="
                    return RunningDaemon.post(
                        "/v1/push-tokens", Array((body + text(count - body.utf8.count)).utf8),
                        ["Authorization: Bearer \(RunningDaemon.adminKey)"])
                }, statuses: (200, 413)),
            Row(
                name: "dead tokens on a page", limit: 10_000,
                request: { page("/v1/dead-tokens?limit=\($0)") }, statuses: (200, 400)),
            Row(
                name: "pushes on a page", limit: 10_000,
                request: { page("/v1/push-statistics?by=push&limit=\($0)") }, statuses: (200, 400)),
            Row(
                name: "letters of a device's code", limit: 128,
                request: { count in
                    RunningDaemon.post(
                        "/api/v1/pushes/all_read/", Array("{\"device\":\"/api/v1/devices/\(text(count))/\"}".utf8),
                        ["Authorization: AppToken \(RunningDaemon.adminKey)"])
                }, statuses: (404, 400)),
            Row(
                name: "bytes of a token that a device asks about", limit: 4096,
                request: { count in
                    RunningDaemon.post(
                        "/api/v1/devices/", Array("{\"platform\":\"ios\",\"token\":\"\(text(count))\"}".utf8),
                        ["Authorization: Token \(RunningDaemon.adminKey)"])
                }, statuses: (404, 400)),
        ]

        @Test func `each holds to the one`() async throws {
            try await RunningDaemon.with(RunningDaemon.forHostileInput) { daemon in
                for row in Self.rows {
                    let counts = [row.limit - 1, row.limit, row.limit + 1]
                    let answers = try await daemon.answers(counts.map(row.request))
                    let expected = [row.statuses.0, row.statuses.0, row.statuses.1]
                    #expect(answers.map { RunningDaemon.statuses($0) } == expected.map { [$0] }, "\(row.name)")
                }
                try await daemon.expectAlive()
                let count = await daemon.bindingCount()
                #expect(count == 0)
            }
        }

        @Test func `connections of one source are limited`() async throws {
            try await RunningDaemon.with({
                $0.api.http.connectionsPerSource = 3
                $0.api.http.headTimeout = .seconds(1)
            }) { daemon in
                // All connections stay open until the time limit for a head, because no request is complete.
                async let open = withThrowingTaskGroup(of: String.self) { group in
                    for _ in 0..<6 { group.addTask { try await daemon.answer("GET / HTTP/1.1\r\n") } }
                    return try await group.reduce(into: [String]()) { $0.append($1) }
                }
                let answers = try await open
                #expect(answers.count { $0.isEmpty } == 3)
                #expect(answers.count { RunningDaemon.statuses($0) == [408] } == 3)
            }
        }
    }
}
