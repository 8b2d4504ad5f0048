import Bytes
import JSON
import PushDelivery
import Testing

private let selector = "12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14"

private func device(_ prid: String, _ param: String = "com.example.app:\(selector)") -> PushToken {
    token(.acrobits, prid, param: param)
}

private func body(_ token: PushToken, _ message: PushMessage) throws -> JSONValue {
    try JSONValue(try #require(PushSettings.sample.rendered(push(to: token, message))?.body))
}

@Suite("Pushes through Acrobits' push server")
struct AcrobitsRequestTests {
    @Test func `a call goes to the calls token and carries the Call-ID`() throws {
        let request = try #require(
            PushSettings.sample.rendered(
                push(to: device("T2s+/w==:calls&T3Ro:other", "calls.app&other.app:\(selector)"), incomingCall())))
        #expect(request.url == "https://pnm.cloudsoftphone.com/pnm2/send")
        #expect(request.method == "POST")
        #expect(request.header("content-type") == "application/json")
        #expect(
            request.text
                == #"{"verb":"NotifyIncomingCall","AppId":"calls.app","DeviceToken":"T2s+/w==","#
                + #""Selector":"\#(selector)","Id":"a84b4c76e66710@pc33.example.net","#
                + #""UserName":"sip:103@example.net","UserDisplayName":"Anna"}"#)
    }

    @Test func `a list of missed calls is a text for the other token`() throws {
        let list = missedCalls([("103", 1_623_753_600), ("104", 1_623_753_650)])
        let request = try #require(
            PushSettings.sample.rendered(
                push(to: device("T3Ro:other&T2s=:calls", "calls.app&other.app:\(selector)"), list)))
        #expect(
            request.text
                == #"{"verb":"NotifyGenericTextMessage","AppId":"other.app","DeviceToken":"T3Ro","#
                + #""Selector":"\#(selector)","Message":"Missed calls: 104, 103","Badge":10}"#)
    }

    @Test func `one token alone serves for both, and one app too`() throws {
        let list = missedCalls([("103", 1_623_753_600)])
        for message in [incomingCall(), list] {
            let found = try body(device("T2s="), message)
            #expect(found["DeviceToken"]?.string == "T2s=")
            #expect(found["AppId"]?.string == "com.example.app")
            #expect(found["Selector"]?.string == selector)
            #expect(try body(device("T2s=", "com.example.app"), message)["Selector"] == nil)
            #expect(try body(device("T2s=", "com.example.app:"), message)["Selector"] == nil)
        }
        #expect(try body(device("A:calls&B:other"), list)["AppId"]?.string == "com.example.app")
        #expect(try body(device("A", "x&y"), list)["AppId"]?.string == "y")
    }

    @Test func `a token that is for something else is not used`() {
        let list = missedCalls([("103", 1_623_753_600)])
        #expect(PushSettings.sample.render(push(to: device("A:calls"), list)) == .impossible(.noSuitableToken))
        #expect(
            PushSettings.sample.render(push(to: device("A:other"), incomingCall())) == .impossible(.noSuitableToken))
    }

    @Test(arguments: [
        (MediatedMessage.Verb.callMissed, "NotifyIncomingCallMissed"),
        (.callAnsweredElsewhere, "NotifyIncomingCallAnsweredElsewhere"),
    ])
    func `the end of a call goes to the other token, and never to a token for calls`(
        verb: MediatedMessage.Verb, word: String
    ) throws {
        var message = MediatedMessage(verb)
        message.id = ByteString("a84b4c76e66710@pc33.example.net")
        var notification = PushNotification(expiresAt: sampleDate)
        notification.mediated = message
        let request = push(
            to: device("T2s=:calls&T3Ro:other", "calls.app&other.app:\(selector)"), .notification(notification))
        #expect(
            PushSettings.sample.body(request)
                == #"{"verb":"\#(word)","AppId":"other.app","DeviceToken":"T3Ro","Selector":"\#(selector)","#
                + #""Id":"a84b4c76e66710@pc33.example.net"}"#)
        for (prid, param) in [("A:calls", "a:\(selector)"), ("A", "a")] {
            #expect(
                PushSettings.sample.render(push(to: device(prid, param), .notification(notification)))
                    == .impossible(.noSuitableToken))
        }
    }

    @Test(arguments: [
        ("A&B", AcrobitsToken.Problem.missingUse), ("A:calls&B", .missingUse), ("A:calls&B:calls", .repeatedUse),
        ("A:voip", .unknownUse), (":calls", .emptyToken), ("A:", .unknownUse), ("&A:calls", .emptyToken),
        ("A:calls&B:other&C", .tooManyTokens),
    ])
    func `contradicting tokens are invalid`(prid: String, problem: AcrobitsToken.Problem) {
        #expect(throws: problem) { try AcrobitsToken(device(prid)) }
        #expect(PushSettings.sample.render(push(to: device(prid), incomingCall())) == .impossible(.noSuitableToken))
        #expect(PushAcceptance(.sample).problem(with: device(prid)) == .acrobitsToken)
    }

    @Test(arguments: [
        ("", AcrobitsToken.Problem.missingApp), (":\(selector)", .missingApp), ("a&", .missingApp),
        ("&b:x", .missingApp), ("a&b&c", .tooManyApps),
    ])
    func `apps are one or two`(param: String, problem: AcrobitsToken.Problem) {
        #expect(throws: problem) { try AcrobitsToken(device("A", param)) }
    }

    @Test func `a caller who hides has no number`() throws {
        let found = try body(device("A"), incomingCall(isAnonymous: true))
        #expect(found["UserName"]?.string == "anonymous")
        #expect(found["UserDisplayName"]?.string == "Anonymous")
    }

    @Test func `another endpoint is used as it is`() throws {
        var settings = PushSettings.sample
        settings.acrobits.endpoint = "https://127.0.0.1:8443/"
        let request = try #require(settings.rendered(push(to: device("A"), incomingCall())))
        #expect(request.url == "https://127.0.0.1:8443/pnm2/send")
    }
}

@Suite("Answers of Acrobits' push server")
struct AcrobitsReasonTests {
    private func outcome(_ status: Int, _ body: String, retryAfter: String? = nil) -> PushOutcome? {
        PushSettings.sample.app(of: device("A"))?.outcome(
            of: ProviderAnswer(status: status, retryAfter: retryAfter, body: Array(body.utf8)), isProven: false,
            now: sampleDate)
    }

    @Test(arguments: [
        (200, PushOutcome.accepted(nil)), (404, .tokenDead(since: nil)), (400, .payloadRefused("why")),
        (401, .credentialsRefused("why")), (403, .credentialsRefused("why")), (429, .retry(after: nil)),
        (500, .retry(after: nil)), (503, .retry(after: nil)), (201, .payloadRefused("why")),
        (0, .payloadRefused("why")),
    ])
    func `the code in the body decides`(code: Int, expected: PushOutcome) {
        for name in ["code", "status"] {
            for text in ["\(code)", "\"\(code)\""] {
                #expect(outcome(200, "{\"\(name)\":\(text),\"response\":\"why\"}") == expected)
            }
        }
    }

    @Test func `code counts before status, and a number may be a string`() {
        #expect(outcome(200, #"{"status":500,"code":200}"#) == .accepted(nil))
        #expect(outcome(200, #"{"code":418}"#) == .payloadRefused("code 418"))
    }

    @Test(arguments: ["", "OK", "[]", "{}", #"{"code":null}"#, #"{"code":"x"}"#, "<html>"])
    func `an answer without a code proves nothing`(body: String) {
        #expect(outcome(200, body) == .retry(after: nil))
    }

    @Test(arguments: [
        (400, PushOutcome.payloadRefused("status 400")), (401, .credentialsRefused("status 401")),
        (403, .credentialsRefused("status 403")), (404, .payloadRefused("status 404")),
        (429, .retry(after: .seconds(3))), (500, .retry(after: .seconds(3))), (503, .retry(after: .seconds(3))),
        (302, .payloadRefused("status 302")),
    ])
    func `a status other than 200 concerns the request, and never the token`(status: Int, expected: PushOutcome) {
        #expect(outcome(status, #"{"code":404}"#, retryAfter: "3") == expected)
        #expect(outcome(status, "", retryAfter: "3") == expected)
    }
}
