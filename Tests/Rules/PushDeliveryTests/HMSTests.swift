import Bytes
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

private let device = token(.hms, "IQAAAACy0tLs-_:1", param: "100123456")

private func makeSettings(_ change: (inout HMSSettings) -> Void = { _ in }) -> PushSettings {
    var settings = PushSettings()
    settings.hms.enabled = true
    settings.hms.appID = "100123456"
    settings.hms.clientSecret = Secret("s")
    change(&settings.hms)
    return settings
}

private func app(_ settings: PushSettings) throws -> PushApp {
    try #require(PushDirectory(settings).apps.first { $0.provider == .hms })
}

private func message(_ push: PushRequest, _ settings: PushSettings) throws -> JSONValue {
    let request = try #require(settings.rendered(push))
    #expect(request.body.count - push.token.prid.count - 2 <= 4096)
    return try #require(try JSONValue(request.body)["message"])
}

/// The object inside the string `data`.
private func data(_ message: JSONValue) throws -> JSONValue {
    try JSONValue(Array(try #require(message["data"]?.string).utf8))
}

private func code(_ code: String, _ text: String = "m") -> String {
    #"{"code":"\#(code)","msg":"\#(text)","requestId":"157"}"#
}

/// The status and the body of an answer, with its meaning while no push of the app was accepted yet.
private let answers: [(Int, String, PushOutcome)] = [
    (200, code("80000000", "Success"), PushOutcome.accepted(ByteString("157"))),
    (200, code("80100000", #"{\"success\":0,\"failure\":1,\"illegal_tokens\":[\"T\"]}"#), .tokenDead(since: nil)),
    (200, code("80100000", #"{\"success\":1,\"failure\":0,\"illegal_tokens\":[]}"#), .accepted(nil)),
    (
        200, code("80100000", #"{\"success\":0,\"failure\":\"1\"}"#),
        .foreignToken(#"80100000: {"success":0,"failure":"1"}"#)
    ),
    (200, code("80100000", "?"), .foreignToken("80100000: ?")),
    (400, code("80100001"), .payloadRefused("80100001: m")), (400, code("80100003"), .payloadRefused("80100003: m")),
    (400, code("80100004"), .payloadRefused("80100004: m")), (400, code("80100016"), .payloadRefused("80100016: m")),
    (401, code("80200001"), .renewCredential), (200, code("80200001"), .renewCredential),
    (401, code("80200003"), .renewCredential), (200, code("80200003"), .renewCredential),
    (200, code("80300002"), .credentialsRefused("80300002: m")),
    (200, code("80300007"), .foreignToken("80300007: m")), (400, code("80300007"), .foreignToken("80300007: m")),
    (200, code("80300008"), .payloadRefused("80300008: m")), (400, code("80300010"), .payloadRefused("80300010: m")),
    (500, code("80600003"), .retry(after: .seconds(7))), (200, code("80600003"), .retry(after: .seconds(7))),
    (500, code("81000001"), .retry(after: .seconds(7))), (200, code("81000001"), .retry(after: .seconds(7))),
    (200, #"{"code":80000000,"msg":"Success"}"#, .accepted(nil)),
    (429, "", .retry(after: .seconds(7))), (429, code("80000000"), .retry(after: .seconds(7))),
    (502, "", .retry(after: .seconds(7))), (503, code("80300007"), .retry(after: .seconds(7))),
    (404, "", .credentialsRefused("status 404: the app-id is unknown, or Push Kit is not enabled for the app")),
    (401, "", .renewCredential), (403, "", .credentialsRefused("status 403")),
    // An answer that is not Huawei's shows nothing, and a code of tomorrow keeps the token.
    (200, "<html>", .retry(after: .seconds(7))), (200, code("80999999"), .payloadRefused("80999999: m")),
    (401, code("80999999"), .renewCredential), (200, #"{"code":{}}"#, .retry(after: .seconds(7))),
]

@Suite("Huawei's Push Kit: requests")
struct HMSRequestTests {
    @Test func `a call is data in one string, at once and with the rest of the ring time`() throws {
        let call = push(to: device, incomingCall(), deadline: sampleDate + .seconds(30))
        let request = try #require(makeSettings().rendered(call))
        #expect(request.url == "https://push-api.cloud.huawei.com/v1/100123456/messages:send")
        #expect(request.method == "POST" && request.header("content-type") == "application/json")
        #expect(try JSONValue(request.body)["validate_only"] == .bool(false))
        let message = try message(call, makeSettings())
        #expect(message["token"]?.array?.map(\.string) == ["IQAAAACy0tLs-_:1"])
        let android = #"{"collapse_key":-1,"urgency":"HIGH","category":"VOIP","ttl":"28s"}"#
        #expect(message["android"] == (try JSONValue(Array(android.utf8))))
        let data = try data(message)
        #expect(data["type"]?.string == "invite" && data["ttl"]?.string == "28")
        #expect(data["call_id"]?.string == "a84b4c76e66710@pc33.example.net")
        #expect(data["sent"]?.string == "1623753691")
    }

    @Test func `urgency, category and endpoint follow the settings`() throws {
        let settings = makeSettings {
            $0.urgency = .normal
            $0.category = ""
            $0.endpoint = "https://api.push.hicloud.com/"
        }
        let call = push(to: device, incomingCall())
        #expect(settings.rendered(call)?.url == "https://api.push.hicloud.com/v1/100123456/messages:send")
        let android = try #require(try message(call, settings)["android"])
        #expect(android["urgency"]?.string == "NORMAL" && android["category"] == nil)
    }

    @Test func `what is not about a call is not urgent, and a growing list replaces the old one`() throws {
        let one = try message(push(to: device, missedCalls([("103", 1)])), makeSettings())
        let two = try message(push(to: device, missedCalls([("103", 1), ("104", 2)])), makeSettings())
        let other = try message(push(to: device, missedCalls([("104", 2)])), makeSettings())
        let groups = [one, two, other].map { $0["android"]?["collapse_key"]?.integer ?? 0 }
        #expect(groups[0] == groups[1] && groups.allSatisfy { (1...100).contains($0) })
        #expect(one["android"]?["urgency"]?.string == "NORMAL" && one["android"]?["category"] == nil)
        var refresh = PushNotification(expiresAt: sampleDate + .seconds(180))
        refresh.isSilent = true
        let silent = try message(push(to: device, .notification(refresh)), makeSettings())
        #expect(silent["android"]?["collapse_key"]?.integer == -1)
        #expect(silent["android"]?["urgency"]?.string == "NORMAL" && silent["android"]?["ttl"]?.string == "180s")
    }

    @Test func `Huawei keeps a push for a second at least and fifteen days at most`() throws {
        let late = push(to: device, incomingCall(), deadline: sampleDate)
        #expect(try message(late, makeSettings())["android"]?["ttl"]?.string == "1s")
        let long = PushNotification(expiresAt: sampleDate + .seconds(2_000_000))
        let kept = try message(push(to: device, .notification(long)), makeSettings())
        #expect(kept["android"]?["ttl"]?.string == "1296000s")
    }

    @Test func `with the style notification, the system shows the call, and silent pushes stay data`() throws {
        let settings = makeSettings { $0.style = .notification }
        let call = try message(push(to: device, incomingCall()), settings)
        let shown = try #require(call["android"]?["notification"])
        #expect(shown["title"]?.string == "Incoming call" && shown["body"]?.string == "Anna")
        #expect(shown["click_action"]?["type"]?.integer == 3)
        #expect(try data(call)["call_id"] != nil)
        let list = try message(push(to: device, missedCalls([("103", 1)])), settings)
        #expect(list["android"]?["notification"]?["body"]?.string == "103")
        var refresh = PushNotification(expiresAt: sampleDate + .seconds(180))
        refresh.isSilent = true
        let silent = try message(push(to: device, .notification(refresh)), settings)
        #expect(silent["android"]?["notification"] == nil)
    }

    @Test func `an anonymous caller stays so in what the system shows`() throws {
        let settings = makeSettings { $0.style = .notification }
        let body = try #require(settings.body(push(to: device, incomingCall(isAnonymous: true))))
        #expect(!body.contains("Anna") && !body.contains("103") && body.contains("Anonymous"))
    }

    @Test func `a test of a token is only checked by Huawei`() throws {
        let request = try #require(makeSettings().rendered(push(to: device, .silent)))
        #expect(request.text == #"{"validate_only":true,"message":{"data":"{}","token":["IQAAAACy0tLs-_:1"]}}"#)
    }

    @Test(arguments: PayloadProfile.allCases, HMSStyle.allCases)
    func `no text of a caller makes the body too long`(profile: PayloadProfile, style: HMSStyle) throws {
        let settings = makeSettings {
            $0.payload = profile
            $0.style = style
        }
        for character in ["x", "\"", "\\", "\u{1}", "é", "😀"] {
            let text = String(repeating: character, count: 3000)
            let id = ByteString(String(repeating: character, count: 512 / character.utf8.count))
            let call = IncomingCall(
                callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:" + text), displayName: ByteString(text),
                isAnonymous: false, receivedAt: sampleDate, callID: id)
            let messages: [PushMessage] = [
                .incomingCall(call), missedCalls((0..<100).map { ("\(text.prefix(300))\($0)", $0) }),
                .notification(PushNotification(EndedCallNotice(call, .missed), expiresAt: sampleDate)),
            ]
            for item in messages {
                guard profile != .linphone || character == "x" else { continue }
                _ = try data(try message(push(to: device, item), settings))
            }
        }
    }

    /// The Call-ID goes first: the phone rings even without it.
    @Test func `a Call-ID without room is left out, and the push is sent`() throws {
        let settings = makeSettings { $0.payload = .ecss10Extended }
        func sent(_ character: Character) throws -> JSONValue {
            let call = IncomingCall(
                callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:103@example.net"), displayName: .empty,
                isAnonymous: false, receivedAt: sampleDate,
                callID: ByteString(String(repeating: character, count: 512)))
            return try data(try message(push(to: device, .incomingCall(call)), settings))
        }
        #expect(try sent("x")["call_id"]?.string?.count == 512)
        let short = try sent("\u{1}")
        #expect(short["call_id"] == nil || short["call_id"]?.string?.count == 512)
        #expect(short["sent"] != nil && short["number"]?.string == "sip:103@example.net")
    }

    @Test func `a hostile token stays in its string`() throws {
        let prid = #"a","b"],"x":{"y":"\"#
        let request = try #require(
            makeSettings().rendered(push(to: token(.hms, prid, param: "100123456"), incomingCall())))
        let whole = try JSONValue(request.body)
        #expect(whole["message"]?["token"]?.array?.map(\.string) == [prid])
        guard case .object(let members) = whole else { return #expect(Bool(false)) }
        #expect(members.map(\.key) == ["validate_only", "message"])
    }
}

@Suite("Huawei's Push Kit: answers, tokens and trials")
struct HMSAnswerTests {
    @Test(arguments: answers)
    func `the code of each answer decides`(status: Int, body: String, expected: PushOutcome) throws {
        let answer = ProviderAnswer(status: status, retryAfter: "7", body: Array(body.utf8))
        #expect(try app(makeSettings()).outcome(of: answer, isProven: false, now: sampleDate) == expected)
    }

    @Test(arguments: ["80300007", "80100000"])
    func `invalid tokens are dead only after Huawei has accepted a push of the app`(text: String) throws {
        let answer = ProviderAnswer(status: 200, body: Array(code(text).utf8))
        let app = try app(makeSettings())
        #expect(app.outcome(of: answer, isProven: true, now: sampleDate) == .tokenDead(since: nil))
        #expect(app.outcome(of: answer, isProven: false, now: sampleDate) != .tokenDead(since: nil))
    }

    // MARK: Tokens

    @Test func `a token needs an app of the settings, and must be short ASCII without spaces`() {
        let one = PushAcceptance(makeSettings())
        #expect(one.problem(with: device) == nil)
        #expect(one.problem(with: token(.hms, "Ab")) == nil)
        #expect(one.problem(with: token(.hms, "Ab", param: "7")) == .hmsApp)
        for prid in ["a b", "a\u{1}", "é", "a\r\nb", String(repeating: "a", count: 1025)] {
            #expect(one.problem(with: token(.hms, prid, param: "100123456")) == .hmsToken)
        }
        #expect(one.problem(with: token(.hms, String(repeating: "a", count: 1024))) == nil)
        let two = PushAcceptance(
            makeSettings {
                var second = $0
                second.appID = "7"
                $0.apps = ["games": second]
            })
        #expect(two.problem(with: token(.hms, "Ab")) == .hmsParamMissing)
        #expect(two.problem(with: token(.hms, "Ab", param: "7")) == nil)
    }

    @Test func `the provider has two names`() {
        #expect(PushProvider(ByteString("HMS")) == .hms && PushProvider(ByteString("huawei")) == .hms)
        #expect(PushProvider(number: PushProvider.hms.number) == .hms)
    }

    @Test func `the settings name what is missing`() throws {
        func complaint(_ yaml: String) -> String {
            do throws(SettingsError) {
                _ = try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
                return ""
            } catch {
                return "\(error)"
            }
        }
        #expect(complaint("hms: { enabled: true, client-secret: s }").contains("expected app-id"))
        #expect(complaint("hms: { enabled: true, app-id: \"1\" }").contains("expected client-secret"))
        #expect(complaint("hms: { enabled: true, app-id: a/b, client-secret: s }").contains("expected letters"))
        #expect(
            complaint("hms: { enabled: true, app-id: a, client-secret: s, category: 'a\"' }").contains(
                "capital letters"))
        #expect(complaint("hms: { enabled: true, app-id: a, client-secret: s, category: '' }").isEmpty)
        #expect(complaint("hms: { enabled: false }").isEmpty)
    }

    // MARK: Trials

    @Test func `the trial is only checked, and a dead token shows that the credentials are right`() throws {
        let app = try app(makeSettings())
        let trial = try #require(app.trials.first)
        #expect(app.trials.count == 1 && trial.showsCredential)
        #expect(trial.request.url == "https://push-api.cloud.huawei.com/v1/100123456/messages:send")
        #expect(try JSONValue(trial.request.body)["validate_only"] == .bool(true))
        func verdict(_ status: Int, _ body: String = "") -> TrialVerdict {
            app.verdict(on: ProviderAnswer(status: status, body: Array(body.utf8)))
        }
        for text in ["80000000", "80300007"] { #expect(verdict(200, code(text)) == .works) }
        for (status, text, word) in [
            (401, "80200001", "client-secret"), (200, "80300002", "Push Kit"), (404, "", "Push Kit"),
        ] {
            guard case .refused(_, let cure) = verdict(status, text.isEmpty ? "" : code(text)) else {
                Issue.record("\(status) \(text) is no fault of the settings")
                continue
            }
            #expect(cure.contains(word))
        }
        guard case .failed = verdict(503), case .reached = verdict(400, code("80100003")),
            case .reached = verdict(200, "<html>")
        else {
            Issue.record("a failure of Huawei blames the settings")
            return
        }
    }
}
