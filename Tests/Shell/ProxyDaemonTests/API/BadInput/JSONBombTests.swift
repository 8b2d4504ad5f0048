import StoreTesting
import Testing

extension RunningDaemonSuites {
    /// Tests bodies that are made to break JSON readers, on each HTTP route that accepts a body (threat T15).
    @Suite("JSON bombs", .timeLimit(.minutes(10)))
    struct JSONBombTests {
        private struct Bomb: Sendable {
            let name: String
            let body: [UInt8]

            init(_ name: String, _ text: String) {
                self.name = name
                body = Array(text.utf8)
            }

            init(_ name: String, bytes: [UInt8]) {
                self.name = name
                body = bytes
            }
        }

        private static func nested(_ open: String, _ middle: String, _ close: String, _ count: Int) -> String {
            String(repeating: open, count: count) + middle + String(repeating: close, count: count)
        }

        private static func utf16(_ text: String, bigEndian: Bool, mark: Bool = true) -> [UInt8] {
            ((mark ? [0xfeff] : []) + Array(text.utf16)).flatMap { unit in
                bigEndian ? [UInt8(unit >> 8), UInt8(unit & 255)] : [UInt8(unit & 255), UInt8(unit >> 8)]
            }
        }

        /// The size of the bodies in bytes, which is below the limit of the server, so that the HTTP route is called.
        private static let size = 200_000

        private static let bombs = [
            // JSON bodies that are nested too deeply.
            Bomb("33 arrays", nested("[", "", "]", 33)),
            Bomb("33 objects", nested("{\"a\":", "1", "}", 33)),
            Bomb("100000 open arrays", String(repeating: "[", count: 100_000)),
            Bomb("30000 open objects", String(repeating: "{\"a\":", count: 30_000)),
            Bomb("both in turn", nested("[{\"a\":", "0", "}]", 20_000)),
            Bomb("deep behind a good beginning", "{\"username\":\"u\",\"x\":" + nested("[", "", "]", 5000) + "}"),
            Bomb("closed more often than opened", String(repeating: "]", count: 10_000)),
            // JSON bodies with very many values, or very long texts.
            Bomb("60000 values", "[" + String(repeating: "0,", count: 60_000) + "0]"),
            Bomb(
                "20000 keys",
                "{" + (0..<10_000).map { "\"k\($0)\":0" }.joined(separator: ",") + ",\"k\":[" + nested("[", "", "]", 40)
                    + "]}"),
            Bomb("60000 times the same key", "{" + String(repeating: "\"a\":0,", count: 30_000) + "\"a\":}"),
            Bomb("a string without end", "{\"a\":\"" + String(repeating: "x", count: size)),
            Bomb("backslashes", "\"" + String(repeating: "\\", count: 99_999) + "\""),
            Bomb("blanks and nothing", String(repeating: " \t\r\n", count: size / 4)),
            // JSON bodies with numbers that are too long, too large or invalid.
            Bomb("a number of 100000 digits", "[" + String(repeating: "9", count: 100_000) + ",]"),
            Bomb("an exponent of 100000 digits", "[1e" + String(repeating: "9", count: 100_000) + "x]"),
            Bomb("a huge exponent as a text", "{\"UserId\":1e999999999,\"MobileAppId\":1e-999999999}"),
            Bomb("not a number", "NaN"), Bomb("infinity", "[-Infinity]"), Bomb("a leading zero", "[007]"),
            Bomb("hexadecimal", "[0x10]"), Bomb("a lone sign", "[-]"), Bomb("a point at the end", "[1.]"),
            Bomb("a plus", "[+1]"),
            // JSON bodies in other encodings than UTF-8, or with invalid characters.
            Bomb("byte order mark", bytes: [0xef, 0xbb, 0xbf] + Array("{}".utf8)),
            Bomb("UTF-16, little end first", bytes: utf16("{\"username\":\"u\"}", bigEndian: false)),
            Bomb("UTF-16, big end first", bytes: utf16("{\"username\":\"u\"}", bigEndian: true)),
            Bomb("UTF-16 without a mark", bytes: utf16("{}", bigEndian: false, mark: false)),
            Bomb("UTF-32", bytes: [0, 0, 0xfe, 0xff, 0, 0, 0, 0x7b, 0, 0, 0, 0x7d]),
            Bomb("Latin 1", bytes: Array("{\"username\":\"".utf8) + [0xe9] + Array("\"}".utf8)),
            Bomb("overlong slash", bytes: Array("{\"username\":\"".utf8) + [0xc0, 0xaf] + Array("\"}".utf8)),
            Bomb("a surrogate in UTF-8", bytes: Array("[\"".utf8) + [0xed, 0xa0, 0x80] + Array("\"]".utf8)),
            Bomb("beyond Unicode", bytes: Array("[\"".utf8) + [0xf4, 0x90, 0x80, 0x80] + Array("\"]".utf8)),
            Bomb("a cut character", bytes: Array("[\"".utf8) + [0xe2, 0x82] + Array("\"]".utf8)),
            Bomb("lone surrogate", "{\"username\":\"\\ud800\"}"), Bomb("surrogates turned", "[\"\\udc00\\ud800\"]"),
            Bomb("half an escape", "[\"\\u12\"]"), Bomb("unknown escape", "[\"\\x41\"]"),
            Bomb("NUL in a text", bytes: Array("{\"a\":\"".utf8) + [0] + Array("\"}".utf8)),
            Bomb("NUL behind the value", bytes: Array("{}".utf8) + [0]),
            Bomb("only NUL", bytes: [UInt8](repeating: 0, count: 1000)),
            Bomb("a line feed in a text", "{\"a\":\"b\nc\"}"),
            // JSON bodies with values of the wrong type, or with wrong syntax.
            Bomb("an array for an object", "[[]]"), Bomb("null", "null"), Bomb("true", "true"), Bomb("a text", "\"x\""),
            Bomb("a number", "7"), Bomb("two values", "{}{}"), Bomb("a comma too many", "{\"a\":1,}"),
            Bomb("single quotes", "{'a':1}"), Bomb("no quotes", "{a:1}"), Bomb("a comment", "{/**/}"),
            Bomb(
                "texts that are none",
                "{\"MobileAppId\":{},\"UserId\":[],\"ApiToken\":true,\"FcmDeviceToken\":1,\"RegistrationRequestIds\":{},"
                    + "\"username\":[],\"selector\":{},\"token_msgs\":[null]}"),
            Bomb(
                "keys twice that differ",
                "{\"username\":\"u\",\"USERNAME\":\"v\",\"selector\":\"S\",\"token_msgs\":\"T2sx\",\"appid_msgs\":\"a\","
                    + "\"MobileAppId\":\"x\",\"MobileAppId\":null}"),
            Bomb("prototype", "{\"__proto__\":{\"username\":\"u\"},\"constructor\":{}}"),
        ]

        /// The HTTP routes that answer 400 to any body except the expected object.
        private static let strict = [
            "/v1/push-tokens", "/v1/account-removals",
            RunningDaemon.registration, RunningDaemon.registration + "/batch", RunningDaemon.registration + "/status",
            RunningDaemon.registration + "/status/", RunningDaemon.registration + "/cleanup",
            RunningDaemon.registration + "/cleanup/batch",
            "/api/v1/pushes/x/received/", "/api/v1/pushes/x/follow", "/api/v1/pushes/x/read/",
            "/api/v1/pushes/all_read/", "/api/v1/devices/",
        ]

        @Test func `there are enough of them`() { #expect(Self.bombs.count >= 25) }

        @Test func `routes that take JSON refuse each, and nothing changes`() async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder, RunningDaemon.forHostileInput)
            let before = try await daemon.content(folder)
            let fields = ["Content-Type: application/json", "Authorization: Bearer \(RunningDaemon.adminKey)"]
            for target in Self.strict {
                let answers = try await daemon.answers(
                    Self.bombs.map { RunningDaemon.post(target, $0.body, fields) })
                for (bomb, answer) in zip(Self.bombs, answers) {
                    let statuses = RunningDaemon.statuses(answer)
                    #expect([[400], [413]].contains(statuses), "\(target), \(bomb.name): \(statuses)")
                    #expect(!RunningDaemon.leaks(answer), "\(target), \(bomb.name)")
                }
            }
            try await daemon.expectAlive()
            let after = try await daemon.content(folder)
            #expect(after == before)
            try await daemon.stop()
        }

        /// The test asks the daemon for the list of its HTTP routes, and so covers future HTTP routes, too.
        @Test func `no route answers with a server error`() async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder, RunningDaemon.forHostileInput)
            let fields = ["Content-Type: application/json", "Authorization: Bearer \(RunningDaemon.adminKey)"]
            let routes = daemon.routes.filter { $0.method != "GET" && $0.method != "HEAD" }
            #expect(routes.count >= Self.strict.count)
            for route in routes {
                let target = route.pattern.replacing("{*}", with: "x").replacing("{}", with: "x")
                let answers = try await daemon.answers(
                    Self.bombs.map { bomb in
                        let post = RunningDaemon.post(target, bomb.body, fields)
                        return Array(route.method.utf8) + post.dropFirst("POST".utf8.count)
                    })
                for (bomb, answer) in zip(Self.bombs, answers) {
                    let statuses = RunningDaemon.statuses(answer)
                    #expect(
                        statuses.count == 1 && (200..<500).contains(statuses.first ?? 0),
                        "\(route.method) \(target), \(bomb.name): \(statuses)")
                    #expect(!RunningDaemon.leaks(answer), "\(target), \(bomb.name)")
                }
            }
            try await daemon.expectAlive()
            try await daemon.stop()
        }
    }
}
