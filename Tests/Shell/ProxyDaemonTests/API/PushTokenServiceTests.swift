import Bytes
import HTTPServer
import HTTPServices
import LoopTesting
import ProxyCore
import ProxyDaemon
import ProxyPolicy
import PushDelivery
import Registration
import StoreTesting
import Telemetry
import TestSupport
import Testing

private let selector = "12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14"
/// A token of 32 bytes in base64, with characters that must be escaped in forms and paths.
private let callsToken = "Udl99X2JFP1bWwS5gR/wGeLE1hmAB2CMpr1Ej0wxkrY="
private let messagesToken = "QVBBOTFiR3RvMmVuLTE6QVBBOTFi+/8"
private let both = "acrobits app.voip&app:\(selector) \(callsToken):calls&\(messagesToken):other"

extension String {
    /// The text, encoded as clients encode values of queries and forms.
    fileprivate var encoded: String {
        utf8.map { byte in
            byte.isLetterOrDigit
                ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16).uppercased()
        }.joined()
    }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool {
        (48...57).contains(self) || (65...90).contains(self) || (97...122).contains(self)
    }
}

/// The suites inside this suite run their daemons one after the other, because only one loop of a process gets signals.
@Suite(.serialized) enum RunningDaemonSuites {}

extension RunningDaemonSuites {
    @Suite("Push Token Reporter", .timeLimit(.minutes(10)))
    struct PushTokenServiceTests {
        private static let names = [
            ("token_calls", "appid_calls", "token_msgs", "appid_msgs"),
            ("token_calls", "appId_calls", "token_msgs", "appId_msgs"),
            ("pushTokenIncomingCall", "pushappid_incoming_call", "pushTokenOther", "pushappid_other"),
            ("pushTokenIncomingCall", "pushappid_incoming_call", "pushToken", "pushappid"),
            ("TOKEN_CALLS", "APPID_CALLS", "pushtoken", "PushAppId"),
        ]

        private func form(_ names: (String, String, String, String), encoding: Bool = true) -> String {
            let encode = { (text: String) in encoding ? text.encoded : text }
            return "selector=\(encode(selector))&\(names.0)=\(encode(callsToken))&\(names.1)=app.voip"
                + "&\(names.2)=\(encode(messagesToken))&\(names.3)=app"
        }

        private func json(_ names: (String, String, String, String), _ more: String) -> String {
            """
            {"selector":"\(selector)", "\(names.0)":"\(callsToken)","\(names.1)":"app.voip",
             "\(names.2)" : "\(messagesToken)", "\(names.3)": "app"\(more)}
            """
        }

        // MARK: Forms

        @Test func `every name in every form stores the same device`() async throws {
            try await RunningDaemon.with { daemon in
                let key = daemon.key.text
                var number = 0
                func expect(_ status: Int, _ user: String, _ what: Comment) async {
                    #expect(status == 200, what)
                    let stored = await daemon.devices(user)
                    #expect(stored == [both], what)
                }
                for names in Self.names {
                    for isEncoded in [true, false] {
                        let form = form(names, encoding: isEncoded)
                        for (index, path) in ["/v1/push-tokens", "/v1/push-tokens/", "/token", "/pushToken"]
                            .enumerated()
                        {
                            number += 1
                            let target = "\(path)?username=u\(number)&\(form)"
                            await expect(try await daemon.get(target, key: key), "u\(number)", "\(names) \(index)")
                        }
                        for path in ["/v1/push-tokens/", "/token/", "/pushToken/"] {
                            for end in ["", "/", "/\(selector)", "/\(selector.encoded)/"] {
                                number += 1
                                let target = "\(path)u\(number)\(end)?\(form)"
                                await expect(try await daemon.get(target, key: key), "u\(number)", "\(target)")
                            }
                        }
                        for type in [
                            nil, "application/x-www-form-urlencoded",
                            "application/x-www-form-urlencoded; charset=UTF-8",
                            "text/plain", "x",
                        ] {
                            number += 1
                            await expect(
                                try await daemon.post(
                                    "/v1/push-tokens", "username=u\(number)&\(form)\r\n", type: type, key: key),
                                "u\(number)", "\(type ?? "no type")")
                        }
                    }
                    for type in [
                        "application/json", "application/json; charset=utf-8", "Application/JSON", "text/plain", nil,
                        "application/x-www-form-urlencoded",
                    ] {
                        number += 1
                        await expect(
                            try await daemon.post(
                                "/v1/push-tokens", json(names, ",\"username\":\"u\(number)\",\"x\":[1,{}],\"y\":true"),
                                type: type, key: key),
                            "u\(number)", "\(type ?? "no type")")
                        number += 1
                        await expect(
                            try await daemon.post(
                                "/token/u\(number)/?selector=\(selector)", json(names, ",\"UserName\":\"u\(number)\""),
                                type: type, key: key),
                            "u\(number)", "path and body")
                    }
                }
            }
        }

        @Test(arguments: [
            (callsToken, "&appid=app"), (callsToken.encoded, "&appid=app"), (callsToken, "?appid=app"),
            ("Udl99X2J//5bWwS5gR/wGeLE", "&pushappid=app&x=y"), ("ab+cd/ef==", "&appid_msgs=app"),
            ("ab%20cd", "&appid=app"),
        ])
        func `a token may be in the path, with slashes`(token: String, rest: String) async throws {
            try await RunningDaemon.with { daemon in
                for root in ["/pushToken/", "/v1/push-tokens/", "/token/"] {
                    let user = "u" + root.filter(\.isLetter)
                    try await daemon.expect(
                        200, get: "\(root)\(user)/\(selector)/\(token)\(rest)", key: daemon.key.text)
                    let plain = token.replacing("%2F", with: "/").replacing("%3D", with: "=").replacing(
                        "%20", with: "+")
                    await daemon.expect(["acrobits app:\(selector) \(plain)"], of: user)
                }
            }
        }

        @Test func `the answer is a bare 200, and so it is for a client of the field`() async throws {
            try await RunningDaemon.with { daemon in
                let target =
                    "/token/100/?password=se%20cret%2B1&selector=\(selector)&token_msgs=\(messagesToken.encoded)&appid_msgs=app"
                let answer = try await daemon.answer(
                    "GET \(target) HTTP/1.1\r\nHost: \(daemon.api)\r\nConnection: close\r\nCache-Control: max-age=0\r\n"
                        + "User-Agent: CloudSoftphone/1.5.6\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
                #expect(answer.contains("\r\nContent-Length: 0\r\n"))
                #expect(!answer.lowercased().contains("content-type"))
                #expect(answer.hasSuffix("\r\n\r\n"))
                await daemon.expect(["acrobits app:\(selector) \(messagesToken)"], of: "100")
                for line in daemon.log.lines {
                    #expect(!line.contains("cret") && !line.contains(messagesToken) && !line.contains("12869E0E"))
                }
                #expect(
                    daemon.log.lines.contains {
                        $0.contains("an API request made a change") && $0.contains("user:100@example.net")
                    })
            }
        }

        // MARK: Permissions

        @Test func `a password or a key is needed`() async throws {
            try await RunningDaemon.with({ $0.limits.wrongLoginsPerSource = 0 }) { daemon in
                let rest = "selector=\(selector)&token_msgs=T2sx&appid_msgs=app"
                let rows: [(String, String?, Int)] = [
                    ("username=100&password=se%20cret%2B1", nil, 200),
                    ("username=100@example.net&password=se%20cret%2B1", nil, 200),
                    ("username=sip:100@EXAMPLE.NET&password=se%20cret%2B1", nil, 200),
                    ("username=100", daemon.key.text, 200), ("username=200", daemon.key.text, 200),
                    ("username=100@example.org", daemon.key.text, 200),
                    ("username=100", nil, 401), ("username=100&password=", nil, 401), ("", nil, 401),
                    ("username=100&password=wrong", nil, 401), ("username=100&password=null", nil, 401),
                    ("username=100&password=wrong", daemon.key.text, 401),
                    ("username=nobody&password=se%20cret%2B1", nil, 401),
                    ("username=100@example.org&password=se%20cret%2B1", nil, 401),
                    ("username=100@elsewhere.net&password=se%20cret%2B1", nil, 401),
                    ("username=100@elsewhere.net", daemon.key.text, 404), ("", daemon.key.text, 400),
                    ("password=se%20cret%2B1", nil, 400), ("username=100", RunningDaemon.readerKey, 403),
                    ("username=100", "spd_x", 401),
                ]
                for path in ["/v1/push-tokens", "/v1/account-removals"] {
                    for (who, key, expected) in rows {
                        let before = await daemon.bindingCount()
                        try await daemon.expect(expected, get: "\(path)?\(who)&\(rest)", key: key)
                        try await daemon.expect(expected, post: path, "\(who)&\(rest)", key: key)
                        if expected != 200 {
                            let after = await daemon.bindingCount()
                            #expect(after == before)
                        }
                    }
                }
            }
        }

        @Test func `HEAD changes nothing`() async throws {
            try await RunningDaemon.with { daemon in
                let target = "?username=u&token_msgs=T2sx&appid_msgs=app"
                for (method, status, count) in [("HEAD", 405, 0), ("GET", 200, 1)] {
                    try await daemon.expect(
                        status, get: "/v1/push-tokens\(target)", key: daemon.key.text, method: method)
                    #expect(await daemon.bindingCount() == count)
                }
                try await daemon.expect(405, get: "/v1/account-removals\(target)", key: daemon.key.text, method: "HEAD")
                #expect(await daemon.bindingCount() == 1)
            }
        }

        @Test func `a user is one of one domain`() async throws {
            try await RunningDaemon.with { daemon in
                for (name, token) in [
                    ("%2B49301", "T1"), ("+49301@example.org", "T2"), ("sip:+49301@EXAMPLE.ORG", "T3"),
                ] {
                    try await daemon.expect(
                        200, get: "/v1/push-tokens?username=\(name)&selector=S:1&token_msgs=\(token)&appid_msgs=a",
                        key: daemon.key.text)
                }
                await daemon.expect(["acrobits a:S:1 T1"], of: "+49301")
                await daemon.expect(["acrobits a:S:1 T3"], of: "+49301", domain: "example.org")
                try await daemon.expect(200, get: "/v1/account-removals/+49301@example.org/S:1", key: daemon.key.text)
                await daemon.expect(["acrobits a:S:1 T1"], of: "+49301")
                await daemon.expect([], of: "+49301", domain: "example.org")
            }
        }

        // MARK: Null tokens

        @Test func `a null never takes a token away, in any spelling`() async throws {
            try await RunningDaemon.with { daemon in
                let key = daemon.key.text
                var number = 0
                for null in [#"null"#, #""""#, #""null""#, #""(null)""#, #""NULL""#, nil] {
                    number += 1
                    let user = "u\(number)"
                    let member = null.map { #","token_msgs":\#($0),"appId_msgs":\#($0)"# } ?? ""
                    let start = #"{"username":"\#(user)","selector":"S:1""#
                    func post(_ rest: String) async throws {
                        try await daemon.expect(
                            200, post: "/v1/push-tokens", start + rest + "}", type: "application/json", key: key)
                    }
                    let empty = null.map { #","token_calls":\#($0)"# } ?? ""
                    try await post(member + empty)
                    await daemon.expect([], of: user)
                    // The app reports the token for messages in a later request.
                    try await post(#","token_calls":"Q2Fs","appId_calls":"a.voip""# + member)
                    await daemon.expect(["acrobits a.voip:S:1 Q2Fs:calls"], of: user)
                    try await post(#","token_msgs":"T3Ro","appId_msgs":"a""# + empty)
                    let full = ["acrobits a.voip&a:S:1 Q2Fs:calls&T3Ro:other"]
                    await daemon.expect(full, of: user)
                    try await post(member + empty)
                    await daemon.expect(full, of: user)
                    try await post(#","token_calls":"Q2Fs","appId_calls":"a.voip""# + member)
                    await daemon.expect(full, of: user)
                }
                try await daemon.expect(
                    200, get: "/token/u1/?selector=S:1&token_calls=(null)&token_msgs=null", key: key)
            }
        }

        @Test func `simultaneous reports lose nothing`() async throws {
            try await RunningDaemon.with { daemon in
                async let first = daemon.get(
                    "/v1/push-tokens/u/S:1?token_calls=Q2Fs&appid_calls=a.voip", key: daemon.key.text)
                async let second = daemon.get(
                    "/v1/push-tokens/u/S:1?token_msgs=T3Ro&appid_msgs=a", key: daemon.key.text)
                let statuses = try await (first, second)
                #expect(statuses == (200, 200))
                await daemon.expect(["acrobits a.voip&a:S:1 Q2Fs:calls&T3Ro:other"], of: "u")
            }
        }

        @Test func `one account has many devices, and a token moves to its new selector`() async throws {
            try await RunningDaemon.with({ $0.registrar.maxContacts = 2 }) { daemon in
                let key = daemon.key.text
                for (selector, token, status) in [
                    ("S:1", "T1", 200), ("S:2", "T2", 200), ("S:3", "T3", 403), ("S:4", "T2", 200), ("S:1", "T4", 200),
                ] {
                    try await daemon.expect(
                        status, get: "/v1/push-tokens/u/\(selector)?token_msgs=\(token)&appid_msgs=a", key: key)
                }
                let stored = await daemon.devices("u")
                #expect(Set(stored) == ["acrobits a:S:1 T4", "acrobits a:S:4 T2"])
            }
        }

        // MARK: Hostile input

        @Test func `limits are exact to the byte, and refused reports change nothing`() async throws {
            try await RunningDaemon.with { daemon in
                let limits = [("username", 256), ("selector", 256), ("token_msgs", 2000), ("appid_msgs", 256)]
                for (name, limit) in limits {
                    for length in [limit - 1, limit, limit + 1] {
                        var fields = ["username": "u", "selector": "S:1", "token_msgs": "T2sx", "appid_msgs": "app"]
                        fields[name] = String(repeating: "a", count: length)
                        let before = await daemon.bindingCount()
                        let body = fields.map { "\($0)=\($1)" }.joined(separator: "&")
                        let status = try await daemon.post("/v1/push-tokens", body, key: daemon.key.text)
                        #expect(status == (length > limit ? 400 : 200), "\(name) \(length)")
                        if length > limit { #expect(await daemon.bindingCount() == before) }
                    }
                }
                for count in [60, 61] {
                    let many = Array(repeating: "x=y", count: count).joined(separator: "&")
                    try await daemon.expect(
                        count == 60 ? 200 : 400, post: "/v1/push-tokens",
                        "username=u&selector=S:1&token_msgs=T2sx&appid_msgs=app&\(many)", key: daemon.key.text)
                }
                let start = "username=u&selector=S:1&token_msgs=T2sx&appid_msgs=app&x="
                for length in [(16 << 10) - 1, 16 << 10, (16 << 10) + 1] {
                    let body = start + String(repeating: "x", count: length - start.utf8.count)
                    try await daemon.expect(
                        length > 16 << 10 ? 413 : 200, post: "/v1/push-tokens", body, key: daemon.key.text)
                }
            }
        }

        @Test func `impossible reports are refused, and change nothing`() async throws {
            try await RunningDaemon.with { daemon in
                let key = daemon.key.text
                let fine = "username=u&selector=S:1&appid_msgs=app"
                let wrong = [
                    "token_msgs=a:b&\(fine)", "token_msgs=a%26b&\(fine)", "token_msgs=%00&\(fine)",
                    "token_msgs=%ff&\(fine)",
                    "token_msgs=%25pushToken%25&\(fine)", "token_msgs=a&token_msgs=b&\(fine)",
                    "token_msgs=a&pushToken=b&\(fine)", "token_msgs=a&username=v&\(fine)",
                    "token_msgs=a&selector=T&\(fine)",
                    "token_msgs=a&username=u%00", "token_msgs=a&username=%ff", "token_msgs=a&username=u%0d%0aX:y",
                    "token_msgs=a&username=@example.net", "token_msgs=a&username=u&appid_msgs=a:b",
                    "token_msgs=a&username=u&appid_msgs=a%26b", "token_msgs=a&username=u&appid_msgs=a%20b",
                    "token_msgs=a&username=u&selector=a%20b", "token_msgs=a&username=u&selector=%c3%a4",
                ]
                for query in wrong {
                    let got = try await daemon.get("/v1/push-tokens?\(query)", key: key)
                    let posted = try await daemon.post("/v1/push-tokens", query, key: key)
                    #expect((got, posted) == (400, 400), "\(query)")
                }
                for query in [
                    // The first report names no app at all. The second report has two tokens, one of them without an
                    // app.
                    "username=u&token_msgs=T2sx", "username=u&token_msgs=T2sx&appid_msgs=a&token_calls=Q2Fs",
                ] {
                    try await daemon.expect(422, post: "/v1/push-tokens", query, key: key)
                }
                for body in [
                    "{", "{}x", "[]", "1", #"{"username":"u","token_msgs":["a"]}"#,
                    #"{"username":"u","token_msgs":{}}"#,
                    #"{"username":"u","token_msgs":true}"#, #"{"username":"u","token_msgs":"a\u0000"}"#,
                    #"{"username":"u","token_msgs":"a","TOKEN_MSGS":"b"}"#, #"{"username":"\ud800","token_msgs":"a"}"#,
                    String(repeating: "[", count: 10_000), "{\"x\":" + String(repeating: "[", count: 100),
                ] {
                    try await daemon.expect(400, post: "/v1/push-tokens", body, type: "application/json", key: key)
                }
                for target in [
                    "/v1/push-tokens//S", "/v1/push-tokens/u//", "/v1/push-tokens/u%2Fv", "/v1/push-tokens/../healthz",
                    "/v1/push-tokens/u/S/../T?appid=a", "/v1/push-tokens/u/S/%00", "/v1/push-tokens/u/S/a%5Cb",
                    "/v1/push-tokens/u/S/%ff", "/v1/push-tokens/u/S/T/./x", "/token//", "/v1/account-removals/u/S//",
                ] {
                    try await daemon.expect(400, get: target, key: key)
                }
                let count = await daemon.bindingCount()
                #expect(count == 0)
            }
        }

        @Test func `a disabled provider is named as such`() async throws {
            try await RunningDaemon.with({ $0.push.acrobits.enabled = false }) { daemon in
                try await daemon.expect(
                    409, get: "/v1/push-tokens/u?token_msgs=T2sx&appid_msgs=a", key: daemon.key.text)
            }
        }

        // MARK: Tokens for us

        @Test func `direct makes tokens of Apple and Google of them`() async throws {
            let google = "APA91bGtoXyz_0123456789abcdefghijklmnopqrstuvwxy"
            let hex = "51d97df57d8914fd5b5b04b9811ff019e2c4d6198007608ca6bd448f4c3192b6"
            let rows: [(String, [String])] = [
                ("token_calls=\(callsToken.encoded)&appid_calls=com.a.voip", ["apns TEAM.com.a.voip \(hex):voip"]),
                (
                    "token_msgs=\(callsToken.dropLast())&appid_msgs=com.a",
                    ["apns TEAM.com.a.voip&remote \(hex):voip&\(hex):remote"]
                ),
                ("token_msgs=null&token_calls=null", ["apns TEAM.com.a.voip&remote \(hex):voip&\(hex):remote"]),
            ]
            try await RunningDaemon.with({ settings in
                settings.api.pushTokens.provider = .direct
                settings.push.apns.enabled = true
                settings.push.apns.certFile = "none.pem"
                settings.push.apns.certKeyFile = "none.pem"
            }) { daemon in
                for (query, expected) in rows {
                    try await daemon.expect(200, get: "/v1/push-tokens/u/S:1?\(query)", key: daemon.key.text)
                    let stored = await daemon.devices("u")
                    #expect(stored.map { $0.lowercased() } == expected.map { $0.lowercased() })
                }
                for query in [
                    "token_msgs=T2sx", "token_msgs=AAAA",
                    "token_calls=\(callsToken.encoded)&token_msgs=T2sx&appid_msgs=a",
                    "token_calls=\(callsToken.encoded)&appid_calls=com.b.voip&appid_msgs=com.c", "token_msgs=A",
                ] {
                    let status = try await daemon.get("/v1/push-tokens/v/S:1?\(query)", key: daemon.key.text)
                    #expect(status == 422 || status == 409, "\(query)")
                }
            }
            let told = ReportedTokens(
                form: .direct, calls: .init(),
                other: .init(token: ByteString("QVBBOTFiR3RvWHl6XzAxMjM0NTY3ODlhYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5")),
                selector: .empty)
            #expect(told.pushToken(over: nil)?.prid == ByteString(google))
            #expect(told.pushToken(over: nil)?.provider == .fcm)
        }

        // MARK: Removal

        @Test func `accounts are removed in every form, and removing again is no error`() async throws {
            try await RunningDaemon.with { daemon in
                let key = daemon.key.text
                let removals: [(RunningDaemon) async throws -> Int] = [
                    { try await $0.get("/v1/account-removals?username=u&selector=S:1", key: key) },
                    { try await $0.get("/v1/account-removals/u/?selector=S:1", key: key) },
                    { try await $0.get("/v1/account-removals/u/S:1", key: key) },
                    { try await $0.get("/v1/account-removals/u/S:1/T2sx&appid=a", key: key) },
                    { try await $0.post("/v1/account-removals", "username=u&selector=S%3A1", key: key) },
                    {
                        try await $0.post(
                            "/v1/account-removals/u", #"{"selector":"S:1","token_msgs":null}"#,
                            type: "application/json", key: key)
                    },
                ]
                for removal in removals {
                    for (selector, token) in [("S:1", "T2sx"), ("S:2", "T3Ro")] {
                        try await daemon.expect(
                            200, get: "/v1/push-tokens/u/\(selector)?token_msgs=\(token)&appid_msgs=a", key: key)
                    }
                    for _ in 0..<2 {
                        let status = try await removal(daemon)
                        #expect(status == 200)
                        await daemon.expect(["acrobits a:S:2 T3Ro"], of: "u")
                    }
                }
                // The token and the selector belong to different devices, and the selector has precedence.
                try await daemon.expect(200, get: "/v1/account-removals/u/S:9?token_msgs=T3Ro", key: key)
                await daemon.expect(["acrobits a:S:2 T3Ro"], of: "u")
                try await daemon.expect(200, get: "/v1/account-removals/u?pushToken=T3Ro", key: key)
                await daemon.expect([], of: "u")
                try await daemon.expect(400, get: "/v1/account-removals/u", key: key)
            }
        }

        // MARK: Restart

        @Test func `reported devices are there after a restart, and gone ones are not`() async throws {
            let folder = try StoreFolder()
            let first = try await RunningDaemon.start(folder)
            for user in ["u", "v"] {
                try await first.expect(200, get: "/v1/push-tokens/\(user)?\(form(Self.names[0]))", key: first.key.text)
            }
            try await first.expect(200, get: "/v1/account-removals/v/\(selector)", key: first.key.text)
            try await first.stop()
            let second = try await RunningDaemon.start(folder)
            await second.expect([both], of: "u")
            await second.expect([], of: "v")
            try await second.stop()
        }
    }
}
