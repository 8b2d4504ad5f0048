import Bytes
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

private let resource = "https://fcm.googleapis.com/fcm/send/eXample:APA91b"

private func device(_ url: String = resource, param: String = "") -> PushToken { token(.webPush, url, param: param) }

private func settings(_ yaml: String) throws -> WebPushSettings {
    try WebPushSettings(yaml: Array(yaml.utf8), file: "webpush.yaml")
}

private func isAllowed(_ url: String, at hosts: String = "[push.example.net, \"*.wns.example\", local.example:8443]")
    throws -> Bool
{
    WebPushToken(device(url), allowedAt: try settings("hosts: \(hosts)").hosts) != nil
}

@Suite("Web push requests (RFC 8030)")
struct WebPushRequestTests {
    @Test func `a web push to a device without keys has no payload`() throws {
        let request = try #require(PushSettings.sample.rendered(push(to: device(), incomingCall())))
        #expect(request.method == "POST")
        #expect(request.url == resource)
        #expect(request.body.isEmpty)
        #expect(request.protection == .none)
        #expect(request.header("ttl") == "28")
        #expect(request.header("urgency") == "high")
        #expect(request.header("topic") == "call-0000000000000001")
        #expect(request.headers.count == 3)
    }

    @Test func `a device with keys gets the profile's fields as a JSON object`() throws {
        for padding in ["", "="] {
            let keyed = device(param: "\(browserKey)\(padding).\(browserSecret)\(padding)\(padding)")
            let request = try #require(PushSettings.sample.rendered(push(to: keyed, incomingCall())))
            #expect(request.text == #"{"type":"invite","date":1623753691}"#)
            #expect(
                request.protection
                    == .webPush(publicKey: ByteString(browserKey), authSecret: ByteString(browserSecret)))
        }
        let settings = PushSettings.sample(.tenDarts)
        let keyed = device(param: "\(browserKey).\(browserSecret)")
        let body = try JSONValue(try #require(settings.rendered(push(to: keyed, incomingCall()))?.body))
        #expect(body["badge"]?.integer == 10)
        #expect(body["ctm"]?["display_name"]?.string == "Anna")
    }

    @Test(arguments: [
        "", ".", browserKey, "\(browserKey).", ".\(browserSecret)", "\(browserKey).\(browserSecret).x",
        "\(browserSecret).\(browserKey)", "\(browserKey)A.\(browserSecret)",
        "\(browserKey.dropLast())+.\(browserSecret)",
        "\(browserKey)===.\(browserSecret)", "\(browserKey.dropLast(3))===.\(browserSecret)",
    ])
    func `a param of another form counts as missing`(param: String) throws {
        let request = try #require(PushSettings.sample.rendered(push(to: device(param: param), incomingCall())))
        #expect(request.protection == .none)
        #expect(request.body.isEmpty)
    }

    @Test func `a list of missed calls lives longer and replaces its earlier versions`() throws {
        let keyed = device(param: "\(browserKey).\(browserSecret)")
        let one = missedCalls([("103", 1_623_753_600)])
        let two = missedCalls([("103", 1_623_753_600), ("104", 1_623_753_650)])
        let first = try #require(PushSettings.sample.rendered(push(to: keyed, one)))
        let second = try #require(PushSettings.sample.rendered(push(to: keyed, two)))
        #expect(first.header("ttl") == "120")
        #expect(first.header("urgency") == "normal")
        #expect(first.header("topic") == second.header("topic"))
        for request in [first, second] {
            let topic = try #require(request.header("topic"))
            #expect((1...32).contains(topic.utf8.count))
            let isAlphabet = topic.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
            #expect(isAlphabet)
        }
        let calls = try #require(try JSONValue(second.body)["calls"]?.array)
        #expect(calls.count == 2)
        #expect(calls[1]["remote_uri"]?.string == "104")
    }

    @Test(arguments: PayloadProfile.allCases)
    func `a payload always fits, and contains as many calls as possible`(profile: PayloadProfile) throws {
        let settings = PushSettings.sample(profile)
        let keyed = device(param: "\(browserKey).\(browserSecret)")
        for name in ["10", "\"\\\u{1}", String(repeating: "\u{1}", count: 300), String(repeating: "é", count: 5000)] {
            for count in [1, 30, 100] {
                let list = missedCalls((0..<count).map { (name, 1_623_753_600 + Int64($0)) })
                let request = try #require(settings.rendered(push(to: keyed, list)))
                #expect(request.body.count <= 3993)
                let body = try JSONValue(request.body)
                let calls = try #require((body["calls"] ?? body["ctm"]?["calls"])?.array)
                #expect(!calls.isEmpty)
                if count == 100 { #expect(request.body.count > 3993 - 2500) }
            }
            let call = PushMessage.incomingCall(
                IncomingCall(
                    callRef: CallRef(rawValue: 1), callerURI: ByteString(name), displayName: ByteString(name),
                    isAnonymous: false, receivedAt: sampleDate, callID: ByteString(name)))
            let request = try #require(settings.rendered(push(to: keyed, call)))
            #expect((1...3993).contains(request.body.count))
        }
    }
}

@Suite("Targets of web pushes (T10, T12)")
struct WebPushHostTests {
    @Test(arguments: [
        "https://push.example.net/", "https://push.example.net/a/b?c=d&e=%2F", "https://push.example.net:443/x",
        "https://db5.wns.example/w/?token=A", "https://a.b.wns.example/", "https://local.example:8443/x",
        "https://push.example.net/%0d%0a", "https://push.example.net//evil.example/", "https://push.example.net/@x",
    ])
    func `allowed hosts are accepted, with any path`(url: String) throws {
        let token = try #require(
            WebPushToken(
                device(url),
                allowedAt: try settings("hosts: [push.example.net, \"*.wns.example\", local.example:8443]").hosts))
        #expect(token.url == url)
        #expect(url.hasPrefix("\(token.origin)/") || url.hasPrefix("\(token.origin):443/"))
    }

    /// Tests URLs that lead to another host, and URLs whose host some parsers read differently from others.
    @Test(arguments: [
        "", "https://", "https:///x", "https://push.example.net", "https://push.example.net?x", "push.example.net/x",
        "http://push.example.net/x", "HTTPS://push.example.net/x", "https:/push.example.net/x",
        "https:push.example.net/x", "//push.example.net/x", "ftp://push.example.net/x", "file:///etc/passwd",
        "gopher://push.example.net/x", "unix://push.example.net/x", "javascript:alert(1)",
        " https://push.example.net/x",
        "https://push.example.net/x ", "https://push.example.net/ x", "https://evil.example/x",
        "https://push.example.net.evil.example/x", "https://evilpush.example.net/x", "https://wns.example/x",
        "https://evilwns.example/x", "https://.wns.example/x", "https://a..wns.example/x",
        "https://user@push.example.net/x", "https://user:password@push.example.net/x",
        "https://push.example.net@evil.example/x", "https://push.example.net:443@evil.example/x",
        "https://evil.example#@push.example.net/x", "https://evil.example\\@push.example.net/x",
        "https://evil.example?@push.example.net/x", "https://push.example.net\\.evil.example/x",
        "https://push.example.net/x#fragment", "https://push.example.net./x", "https://PUSH.example.net/x",
        "https://push.example.net:80/x", "https://push.example.net:8443/x", "https://push.example.net:/x",
        "https://push.example.net:0443/x", "https://push.example.net:+443/x", "https://push.example.net:443:443/x",
        "https://push.example.net:65979/x", "https://push.example.net:443x/x", "https://local.example/x",
        "https://local.example:443/x", "https://push%2eexample.net/x", "https://push.example.net%2f.evil.example/x",
        "https://push.example.net%00.evil.example/x", "https://push.example.net\r\nHost: evil.example/x",
        "https://push.example.net/x\r\nX: y", "https://push.example.net/\nx", "https://push.example.net/\u{0}",
        "https://push.example.net/\u{7f}", "https://push.example.net/é", "https://püsh.example.net/x",
        "https://push。example。net/x", "https://push.example.net/%zz", "https://push.example.net/%",
        "https://push.example.net/%4", "https://push.example.net/\"", "https://push.example.net/<x>",
        "https://push.example.net/{{token}}", "https://push.example.net/a|b", "https://push.example.net/`",
        "https://127.0.0.1/x", "https://2130706433/x", "https://0x7f000001/x", "https://0177.0.0.1/x",
        "https://127.1/x", "https://[::1]/x", "https://[::ffff:127.0.0.1]/x", "https://[push.example.net]/x",
        "https://169.254.169.254/latest/meta-data/", "https://localhost/x", "https://-a.wns.example/x",
        "https://a-.wns.example/x", "https://a_b.wns.example/x", "https://*.wns.example/x",
        "https://\(String(repeating: "a", count: 64)).wns.example/x",
        "https://push.example.net/\(String(repeating: "a", count: 2048))",
    ])
    func `nothing else is, in any disguise`(url: String) throws {
        #expect(try !isAllowed(url))
        var settings = PushSettings.sample
        settings.webPush.hosts = try WebPushSettings(
            yaml: Array("hosts: [push.example.net, \"*.wns.example\", local.example:8443]".utf8), file: ""
        ).hosts
        guard !url.isEmpty else { return }
        #expect(settings.render(push(to: device(url), incomingCall())) == .impossible(.noSuitableToken))
        #expect(settings.app(of: device(url))?.origin(of: device(url)) == nil)
        #expect(PushAcceptance(settings).problem(with: device(url)) == .webPushResource)
    }

    @Test func `bytes that are no text are refused`() throws {
        for byte in UInt8.min...UInt8.max where !(0x21...0x7e).contains(byte) {
            for url in [Array("https://push.example.net/".utf8) + [byte], Array("https://push.example".utf8) + [byte]] {
                let token = PushToken(provider: .webPush, param: .empty, prid: ByteString(url))
                #expect(WebPushToken(token, allowedAt: try settings("hosts: push.example.net").hosts) == nil)
            }
        }
    }

    @Test func `today's browsers are known`() throws {
        let hosts = WebPushSettings().hosts
        for url in [
            resource, "https://updates.push.services.mozilla.com/wpush/v2/gAAAA",
            "https://eu.push.services.mozilla.com/x", "https://db5p.notify.windows.com/w/?token=BQYAAAB%2f",
            "https://web.push.apple.com/QK3",
        ] {
            #expect(WebPushToken(device(url), allowedAt: hosts) != nil)
        }
        #expect(WebPushToken(device("https://example.net/"), allowedAt: hosts) == nil)
    }

    @Test(arguments: [
        ("push.example.net", "push.example.net"), ("Push.Example.NET:443", "push.example.net"),
        ("*.push.example.net", "\"*.push.example.net\""), ("127.0.0.1:8443", "127.0.0.1:8443"),
    ])
    func `hosts are read and printed`(text: String, printed: String) throws {
        let host = try WebPushHost(parsing: text)
        #expect(WebPushHost.settingType.print(host) == printed)
    }

    @Test(arguments: [
        "", "*", "*.", "*.net", "https://push.example.net", "push.example.net/", "push.example.net.", "a..b",
        "push.example.net:", "push.example.net:0", "push.example.net:70000", "user@push.example.net", "a b", "**.a.b",
        "a.*.b", "[::1]",
    ])
    func `other hosts are a mistake in the settings`(text: String) {
        #expect(throws: SettingComplaint.self) { try WebPushHost(parsing: text) }
    }
}

@Suite("Answers of web push services")
struct WebPushReasonTests {
    private func outcome(_ status: Int, _ body: String = "", retryAfter: String? = nil) -> PushOutcome? {
        PushSettings.sample.app(of: device())?.outcome(
            of: ProviderAnswer(status: status, retryAfter: retryAfter, body: Array(body.utf8)), isProven: false,
            now: sampleDate)
    }

    @Test(arguments: [
        (201, PushOutcome.accepted(nil)), (202, .accepted(nil)), (200, .accepted(nil)),
        (400, .payloadRefused("status 400")), (401, .credentialsRefused("status 401")),
        (403, .credentialsRefused("status 403")), (404, .tokenDead(since: nil)), (410, .tokenDead(since: nil)),
        (413, .payloadRefused("status 413")), (429, .retry(after: nil)), (500, .retry(after: nil)),
        (503, .retry(after: nil)), (301, .payloadRefused("status 301")), (307, .payloadRefused("status 307")),
    ])
    func `each status has its consequence`(status: Int, expected: PushOutcome) {
        for body in ["", "gone", "[]", #"{"reason":5}"#] { #expect(outcome(status, body) == expected) }
    }

    @Test func `busy services give the waiting time`() {
        #expect(outcome(429, retryAfter: "7") == .retry(after: .seconds(7)))
        #expect(outcome(503, retryAfter: "Tue, 15 Jun 2021 10:41:51 GMT") == .retry(after: .seconds(20)))
    }

    @Test func `reasons of Apple and Mozilla are kept`() {
        #expect(outcome(403, #"{"reason":"BadJwtToken"}"#) == .credentialsRefused("BadJwtToken"))
        #expect(outcome(400, #"{"reason":"BadWebPushTopic"}"#) == .payloadRefused("BadWebPushTopic"))
        #expect(outcome(400, #"{"reason":"VapidPkHashMismatch"}"#) == .credentialsRefused("VapidPkHashMismatch"))
        #expect(outcome(413, #"{"code":413,"message":"too long"}"#) == .payloadRefused("too long"))
        #expect(outcome(404, #"{"reason":"VapidPkHashMismatch"}"#) == .tokenDead(since: nil))
    }
}

@Suite("Settings of web push")
struct WebPushSettingsTests {
    @Test func `web push needs a VAPID key and a VAPID contact`() throws {
        #expect(throws: SettingsError.self) { try settings("enabled: true") }
        #expect(throws: SettingsError.self) { try settings("{ enabled: true, vapid-key-file: /k }") }
        let good = try settings("{ enabled: true, vapid-key-file: /k, vapid-contact: \"mailto:a@b.example\" }")
        #expect(good.contact == "mailto:a@b.example")
        #expect(throws: SettingsError.self) {
            try settings("{ enabled: true, vapid-key-file: /k, vapid-contact: \"mailto:a@b.example\", hosts: [] }")
        }
    }

    @Test(arguments: ["a@b.example", "http://b.example", "mailto:a b", "https:\\n", "mailto:<a@b.example>"])
    func `a contact is a URI of one of two kinds`(contact: String) {
        #expect(throws: SettingsError.self) { try settings("vapid-contact: \"\(contact)\"") }
    }
}
