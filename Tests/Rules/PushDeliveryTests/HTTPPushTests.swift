import Bytes
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

/// Makes settings with one app, called `gateway`, that has the YAML keys `keys`.
func gatewaySettings(_ keys: String) throws -> PushSettings {
    let yaml =
        "http:\n  enabled: true\n  apps:\n    gateway:\n"
        + keys.split(separator: "\n").map { "      \($0)\n" }.joined()
    return try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
}

private func device(_ prid: String = "tok/1") -> PushToken { token(.http, prid, param: "gateway") }

private let everyField = """
    url: "https://push.example.net:8443/v1/{{token}}/x?ref={{call-ref}}&n={{badge}}"
    method: PUT
    headers: ["X-Key: k1", "x-push: {{push-id}} {{ type }}"]
    body: '{"to":"{{token}}","app":"{{param}}","kind":"{{type}}","ref":"{{call-ref}}","id":"{{call-id}}",
      "from":"{{caller}}","name":"{{display-name}}","at":"{{date}}","sent":"{{sent}}","n":"{{badge}}","ttl":"{{ttl}}",
      "calls":"{{calls}}","push":"{{push-id}}","text":"{{display-name}} <{{caller}}>, {{badge}}",
      "fixed":[1.50,true,null,"a\\u0022b",{"x":{}}]}'
    """

@Suite("Pushes in a form of the operator's own")
struct HTTPPushRequestTests {
    @Test func `a call fills all fields, each in its type`() throws {
        let settings = try gatewaySettings(everyField)
        let request = try #require(settings.rendered(push(to: device(), incomingCall())))
        #expect(request.method == "PUT")
        #expect(request.url == "https://push.example.net:8443/v1/tok%2F1/x?ref=0000000000000001&n=10")
        #expect(request.header("x-key") == "k1")
        #expect(request.header("x-push") == "\(sampleCode) invite")
        #expect(request.header("content-type") == "application/json")
        let expected = #"""
            {"to":"tok/1","app":"gateway","kind":"invite","ref":"0000000000000001","id":"a84b4c76e66710@pc33.example.net",
            "from":"sip:103@example.net","name":"Anna","at":1623753691,"sent":1623753691,"n":10,"ttl":28,"calls":[],"push":"\#(sampleCode)",
            "text":"Anna <sip:103@example.net>, 10","fixed":[1.50,true,null,"a\"b",{"x":{}}]}
            """#
        #expect(try JSONValue(request.body) == JSONValue(Array(expected.utf8)))
    }

    @Test func `so does a list of missed calls`() throws {
        let settings = try gatewaySettings(everyField)
        let list = missedCalls([("103", 1_623_753_600), ("104", 1_623_753_650)])
        let body = try JSONValue(try #require(settings.rendered(push(to: device(), list))?.body))
        #expect(body["kind"]?.string == "missed_calls")
        #expect(body["ref"]?.string == "" && body["id"]?.string == "" && body["name"]?.string == "")
        #expect(body["from"]?.string == "104")
        #expect(body["at"]?.integer == 1_623_753_691)
        #expect(body["ttl"]?.integer == 120)
        #expect(body["calls"]?.array?.count == 2)
        #expect(body["calls"]?.array?.first?["remote_uri"]?.string == "103")
    }

    @Test func `no body means an empty one, and no content type`() throws {
        let settings = try gatewaySettings("url: https://push.example.net/x/{{token}}\nmethod: GET")
        let request = try #require(settings.rendered(push(to: device(), incomingCall())))
        #expect(request.method == "GET")
        #expect(request.body.isEmpty && request.headers.isEmpty)
    }

    @Test func `a content type of the operator's stays`() throws {
        let settings = try gatewaySettings(
            "url: https://h/\nheaders: [\"Content-Type: application/x-push+json\"]\nbody: '{}'")
        let request = try #require(settings.rendered(push(to: device(), incomingCall())))
        #expect(request.headers.count == 1)
        #expect(request.header("content-type") == "application/x-push+json")
    }

    @Test func `a caller who hides has no name`() throws {
        let settings = try gatewaySettings(everyField)
        let body = try JSONValue(
            try #require(settings.rendered(push(to: device(), incomingCall(isAnonymous: true)))?.body))
        #expect(body["from"]?.string == "anonymous")
        #expect(body["name"]?.string == "")
    }

    @Test(arguments: [".", "..", "%2e"])
    func `a token that would climb in the path is not pushed`(prid: String) throws {
        let settings = try gatewaySettings("url: https://h/a/{{token}}/b")
        let rendering = settings.render(push(to: device(prid), incomingCall()))
        // The daemon encodes the percent sign of the token once more, so that the token stays a single path segment.
        if prid == "%2e" {
            guard case .request(let request) = rendering else { return #expect(Bool(false)) }
            #expect(request.url == "https://h/a/%252e/b")
        } else {
            #expect(rendering == .impossible(.noSuitableToken))
        }
        let dotted = try gatewaySettings("url: https://h/a/.{{token}}/b")
        let climbs = dotted.render(push(to: device(prid), incomingCall())) == .impossible(.noSuitableToken)
        #expect(climbs == (prid == "."))
        let query = try gatewaySettings("url: https://h/a?t={{token}}")
        #expect(query.rendered(push(to: device(prid), incomingCall())) != nil)
    }

    @Test func `a token that no header can hold is not pushed`() throws {
        let settings = try gatewaySettings("url: https://h/\nheaders: [\"x-token: {{token}}\"]")
        #expect(settings.rendered(push(to: device("abc+/="), incomingCall()))?.header("x-token") == "abc+/=")
        for prid in ["a\r\nx: y", "a b", "é", "a\u{0}"] {
            #expect(settings.render(push(to: device(prid), incomingCall())) == .impossible(.noSuitableToken))
        }
    }

    @Test func `an app is found only by a name of the settings`() throws {
        let settings = try gatewaySettings("url: https://h/")
        #expect(settings.app(of: device())?.name == "http/gateway")
        #expect(settings.app(of: token(.http, "t", param: "Gateway")) == nil)
        #expect(settings.app(of: token(.http, "t")) == nil)
        let acceptance = PushAcceptance(settings)
        #expect(acceptance.problem(with: device()) == nil)
        #expect(acceptance.problem(with: token(.http, "t", param: "other")) == .httpApp)
        #expect(acceptance.problem(with: token(.http, "t")) == .httpParamMissing)
        #expect(settings.enabledProviders == [.http])
        #expect(settings.app(of: device())?.baseURL == "https://h")
    }
}

@Suite("Settings of the operator's own servers")
struct HTTPPushSettingsTests {
    @Test(arguments: [
        "method: POST", "url: push.example.net/x", "url: ftp://h/x", "url: https://h", "url: https://{{token}}/",
        "url: https://h{{token}}/", "url: https://h:{{badge}}/", "url: \"{{token}}\"", "url: https://user@h/",
        "url: https://h/{{tokn}}", "url: https://h/{{token", "url: https://h/{{}}", "url: https://h/{{token}}#f",
        "url: \"https://h/a b\"", "url: https://h/é", "url: https://h/{{calls}}", "url: https:///x",
        "url: https://h/\nheaders: [nothing]", "url: https://h/\nheaders: [\"a b: c\"]",
        "url: https://h/\nheaders: [\": c\"]", "url: https://h/\nheaders: [\"a: {{x}}\"]",
        "url: https://h/\nheaders: [\"a: b\\r\\nc: d\"]", "url: https://h/\nheaders: [\"a: {{calls}}\"]",
        "url: https://h/\nheaders: [\"Content-Length: 5\"]", "url: https://h/\nheaders: [\"sippushd-signature: x\"]",
        "url: https://h/\nheaders: [\"Host: x\"]", "url: https://h/\nheaders: [\"transfer-encoding: chunked\"]",
        "url: https://h/\nbody: '{'", "url: https://h/\nbody: '{\"a\":\"{{x}}\"}'",
        "url: https://h/\nbody: '{\"a\":\"{{token\"}'", "url: https://h/\nbody: '{\"{{token}}\":1}'",
        "url: https://h/\nbody: '{\"a\":{{badge}}}'", "url: https://h/\nbody: 'a={{token}}'",
        "url: https://h/\nbody: '{}'\nmethod: GET", "url: https://h/\nmethod: DELETE",
        "url: https://h/\nprevious-secret: x", "url: https://h/\naccepted-status: [200, 404]",
        "url: https://h/\naccepted-status: [100]", "url: https://h/\ncert-file: /c",
    ])
    func `impossible settings are reported at the start`(keys: String) {
        #expect(throws: SettingsError.self) { try gatewaySettings(keys) }
    }

    @Test func `the sentence lists the known names`() {
        let error = #expect(throws: SettingsError.self) { try gatewaySettings("url: https://h/{{tokn}}") }
        #expect(error?.description.contains("call-ref") == true)
    }

    @Test func `it needs an app`() {
        #expect(throws: SettingsError.self) {
            try PushSettings(yaml: Array("http: { enabled: true }".utf8), file: "push.yaml")
        }
    }

    @Test(arguments: ["k123", "Bearer k123", "x key: k123", "host: k123", "x: k123{{", "x: k123\\r"])
    func `header values are not shown in complaints either`(header: String) {
        let error = #expect(throws: SettingsError.self) {
            try gatewaySettings("url: https://h/\nheaders: [\"\(header)\"]")
        }
        #expect(error?.description.contains("k123") == false)
    }
}

@Suite("Answers of the operator's own servers")
struct HTTPPushReasonTests {
    private func outcome(
        _ status: Int, _ keys: String = "", retryAfter: String? = nil, isProven: Bool = true
    ) throws -> PushOutcome? {
        try gatewaySettings("url: https://h/\n\(keys)").app(of: device())?.outcome(
            of: ProviderAnswer(status: status, retryAfter: retryAfter, body: Array("{}".utf8)), isProven: isProven,
            now: sampleDate)
    }

    @Test(arguments: [
        (200, PushOutcome.accepted(nil)), (201, .accepted(nil)), (204, .accepted(nil)), (299, .accepted(nil)),
        (404, .tokenDead(since: nil)), (410, .tokenDead(since: nil)), (400, .payloadRefused("status 400")),
        (401, .credentialsRefused("status 401")), (403, .credentialsRefused("status 403")),
        (407, .credentialsRefused("status 407")), (408, .retry(after: nil)), (413, .payloadRefused("status 413")),
        (429, .retry(after: nil)), (500, .retry(after: nil)), (503, .retry(after: nil)),
        (302, .payloadRefused("status 302")),
    ])
    func `each status has its usual consequence`(status: Int, expected: PushOutcome) throws {
        #expect(try outcome(status) == expected)
    }

    @Test func `settings can change it`() throws {
        let keys = "accepted-status: [202, 409]\ndead-status: [422]"
        #expect(try outcome(202, keys) == .accepted(nil))
        #expect(try outcome(409, keys) == .accepted(nil))
        #expect(try outcome(200, keys) == .payloadRefused("status 200"))
        #expect(try outcome(422, keys) == .tokenDead(since: nil))
        #expect(try outcome(404, keys) == .payloadRefused("status 404"))
        #expect(try outcome(429, keys, retryAfter: "5") == .retry(after: .seconds(5)))
    }

    @Test func `a path that is not there costs no contact`() throws {
        #expect(try outcome(404, isProven: false) == .credentialsRefused("status 404, and no push was accepted yet"))
        #expect(try outcome(410, isProven: false) == .tokenDead(since: nil))
    }
}
