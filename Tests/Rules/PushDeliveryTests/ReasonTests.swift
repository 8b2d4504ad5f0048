import Bytes
import PushDelivery
import Testing
import Timekeeping

private func answer(_ status: Int, _ body: String = "", retryAfter: String? = nil, id: String? = nil) -> ProviderAnswer
{
    ProviderAnswer(status: status, id: id, retryAfter: retryAfter, body: Array(body.utf8))
}

private func apns(_ status: Int, _ reason: String, isProven: Bool = true) -> PushOutcome? {
    PushSettings.sample.outcome(
        of: answer(status, "{\"reason\":\"\(reason)\"}"), from: .apns, isProven: isProven, now: sampleDate)
}

private func fcm(
    _ status: Int, _ body: String, retryAfter: String? = nil, isProven: Bool = true
) -> PushOutcome? {
    PushSettings.sample.outcome(
        of: answer(status, body, retryAfter: retryAfter), from: .fcm, isProven: isProven, now: sampleDate)
}

/// Makes the body of an error in Google's format.
private func failure(_ status: String, code: String? = nil, message: String = "m", field: String? = nil) -> String {
    var details: [String] = []
    if let field {
        details.append(
            #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"\#(field)"}]}"#)
    }
    if let code {
        details.append(#"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#)
    }
    return
        #"{"error":{"code":1,"message":"\#(message)","status":"\#(status)","details":[\#(details.joined(separator: ","))]}}"#
}

private func legacy(
    _ status: Int, _ body: String, retryAfter: String? = nil, isProven: Bool = true
) -> PushOutcome? {
    PushSettings.sample(.ecss10, .alert, .legacy).outcome(
        of: answer(status, body, retryAfter: retryAfter), from: .fcm, isProven: isProven, now: sampleDate)
}

@Suite("Answers of APNs")
struct APNsReasonTests {
    @Test func `200 is acceptance, with the id it gives`() {
        let accepted = PushSettings.sample.outcome(
            of: answer(200, id: "eabeae54-14a8-11e5-b60b-1697f925ec7b"), from: .apns, isProven: false, now: sampleDate)
        #expect(accepted == .accepted(ByteString("eabeae54-14a8-11e5-b60b-1697f925ec7b")))
    }

    @Test(arguments: [
        (410, "Unregistered", PushOutcome.tokenDead(since: nil)), (410, "ExpiredToken", .tokenDead(since: nil)),
        (410, "SomethingNew", .tokenDead(since: nil)),
        (403, "ExpiredProviderToken", .renewCredential),
        (403, "InvalidProviderToken", .credentialsRefused("InvalidProviderToken")),
        (403, "BadCertificate", .credentialsRefused("BadCertificate")),
        (403, "BadEnvironmentKeyInToken", .credentialsRefused("BadEnvironmentKeyInToken")),
        (403, "SomethingNew", .credentialsRefused("SomethingNew")),
        (400, "TopicDisallowed", .credentialsRefused("TopicDisallowed")),
        (400, "BadTopic", .payloadRefused("BadTopic")), (400, "SomethingNew", .payloadRefused("SomethingNew")),
        (413, "PayloadTooLarge", .payloadRefused("PayloadTooLarge")), (404, "BadPath", .payloadRefused("BadPath")),
        (400, "IdleTimeout", .retry(after: .zero)), (429, "TooManyRequests", .retry(after: nil)),
        (429, "TooManyProviderTokenUpdates", .retry(after: nil)), (500, "InternalServerError", .retry(after: nil)),
        (503, "Shutdown", .retry(after: nil)), (503, "SomethingNew", .retry(after: nil)),
        (503, "Unregistered", .retry(after: nil)),
    ])
    func `each reason has its consequence`(status: Int, reason: String, expected: PushOutcome) {
        #expect(apns(status, reason) == expected)
    }

    @Test func `a dead token comes with milliseconds`() {
        let outcome = PushSettings.sample.outcome(
            of: answer(410, #"{"reason":"Unregistered","timestamp":1623753691000}"#), from: .apns, isProven: true,
            now: sampleDate)
        #expect(outcome == .tokenDead(since: sampleDate))
        #expect(shouldDropToken(since: sampleDate, registeredAt: sampleDate))
        #expect(shouldDropToken(since: sampleDate, registeredAt: UnixTime(milliseconds: sampleDate.milliseconds - 1)))
        #expect(!shouldDropToken(since: sampleDate, registeredAt: UnixTime(milliseconds: sampleDate.milliseconds + 1)))
        #expect(shouldDropToken(since: nil, registeredAt: sampleDate))
    }

    @Test(arguments: ["BadDeviceToken", "DeviceTokenNotForTopic"])
    func `a foreign token is dropped only by a provider that has accepted one of the daemon's pushes`(reason: String) {
        #expect(apns(400, reason) == .tokenDead(since: nil))
        #expect(apns(400, reason, isProven: false) == .foreignToken(reason))
    }

    @Test(arguments: [
        (500, PushOutcome.retry(after: nil)), (502, .retry(after: nil)), (410, .tokenDead(since: nil)),
        (400, .payloadRefused("status 400")), (302, .payloadRefused("status 302")),
        (403, .credentialsRefused("status 403")),
    ])
    func `an answer without a reason is judged by its status`(status: Int, expected: PushOutcome) {
        for body in ["", "<html>", "[]", #"{"reason":5}"#, String(repeating: "[", count: 100_000)] {
            let outcome = PushSettings.sample.outcome(
                of: answer(status, body), from: .apns, isProven: true, now: sampleDate)
            #expect(outcome == expected)
        }
    }

    @Test func `tomorrow's reason keeps its name, and its status decides`() {
        #expect(apns(400, "MoonPhase") == .payloadRefused("MoonPhase"))
        #expect(apns(410, "MoonPhase") == .tokenDead(since: nil))
        #expect(fcm(400, failure("MOON_PHASE")) == .payloadRefused("MOON_PHASE"))
        #expect(fcm(401, failure("MOON_PHASE")) == .renewCredential)
    }
}

@Suite("Answers of FCM")
struct FCMReasonTests {
    @Test(arguments: [#"{"name":"projects/p/messages/7"}"#, #"{ "x": {"name":"no"}, "name":"projects/p/messages/7"}"#])
    func `200 is acceptance, with the message's name`(body: String) {
        #expect(fcm(200, body) == .accepted(ByteString("projects/p/messages/7")))
    }

    @Test(arguments: ["", "{}", "[]", #"{"name":5}"#, #"{"name":{"name":"x"}}"#, #"{"name"#])
    func `200 without a name is acceptance too`(body: String) {
        #expect(fcm(200, body) == .accepted(nil))
    }

    @Test(arguments: [
        (404, failure("NOT_FOUND", code: "UNREGISTERED"), PushOutcome.tokenDead(since: nil)),
        (400, failure("INVALID_ARGUMENT", code: "INVALID_ARGUMENT"), .payloadRefused("m")),
        (400, failure("INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.data"), .payloadRefused("m")),
        (400, failure("INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.token"), .tokenDead(since: nil)),
        (
            400, failure("INVALID_ARGUMENT", message: "The registration token is not a valid FCM registration token"),
            .tokenDead(since: nil)
        ),
        (401, failure("UNAUTHENTICATED"), .renewCredential), (401, "", .renewCredential),
        (401, failure("UNAUTHENTICATED", code: "THIRD_PARTY_AUTH_ERROR"), .credentialsRefused("m")),
        (403, failure("PERMISSION_DENIED"), .credentialsRefused("m")), (403, "", .credentialsRefused("status 403")),
        (429, failure("RESOURCE_EXHAUSTED", code: "QUOTA_EXCEEDED"), .retry(after: .seconds(60))),
        (429, failure("RESOURCE_EXHAUSTED"), .retry(after: .seconds(60))),
        (500, failure("INTERNAL", code: "INTERNAL"), .retry(after: nil)),
        (503, failure("UNAVAILABLE", code: "UNAVAILABLE"), .retry(after: nil)),
        (503, failure("UNAVAILABLE", code: "UNREGISTERED"), .retry(after: nil)), (502, "<html>", .retry(after: nil)),
        (418, failure("TEAPOT"), .payloadRefused("TEAPOT")), (404, "<html>", .payloadRefused("status 404")),
    ])
    func `each error has its consequence`(status: Int, body: String, expected: PushOutcome) {
        #expect(fcm(status, body) == expected)
    }

    @Test func `it may contain the waiting time`() {
        #expect(fcm(429, failure("RESOURCE_EXHAUSTED"), retryAfter: "7") == .retry(after: .seconds(7)))
        #expect(fcm(503, "", retryAfter: "2") == .retry(after: .seconds(2)))
    }

    @Test(arguments: [
        (403, failure("PERMISSION_DENIED", code: "SENDER_ID_MISMATCH"), "SENDER_ID_MISMATCH"),
        (404, failure("NOT_FOUND"), "NOT_FOUND"),
    ])
    func `a foreign token is dropped only by a project that has accepted one of the daemon's pushes`(
        status: Int, body: String, reason: String
    ) {
        #expect(fcm(status, body) == .tokenDead(since: nil))
        #expect(fcm(status, body, isProven: false) == .foreignToken(reason))
    }
}

@Suite("Answers of FCM's legacy interface")
struct FCMLegacyReasonTests {
    private func result(_ content: String) -> String {
        #"{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{\#(content)}]}"#
    }

    @Test func `acceptance may name another token`() {
        #expect(legacy(200, result(#""message_id":"0:1""#)) == .accepted(ByteString("0:1")))
        #expect(
            legacy(200, result(#""message_id":"0:1","registration_id":"new""#))
                == .acceptedWithNewToken(ByteString("new")))
    }

    @Test(arguments: ["", "ok", "{}", #"{"results":[]}"#])
    func `an answer of a gateway without more details means acceptance`(body: String) {
        #expect(legacy(200, body) == .accepted(nil))
    }

    @Test(arguments: [
        #"{"results":[{"error":"NotRegistered"}]"#, #"{"results":[{"error":"NotRegistered"}]} x"#,
        #"{"results":{"error":"NotRegistered"}}"#, #"[{"error":"NotRegistered"}]"#, #"{"results":"NotRegistered"}"#,
        #"{"results":[["NotRegistered"]]}"#, #"{"results":[{"error":"NotRegistered"}],"results":[]}"#,
        #"{"a":[{"error":"NotRegistered"}],"results":[{},{"error":"NotRegistered"}]}"#,
    ])
    func `an answer of a gateway with other details means acceptance`(body: String) {
        #expect(legacy(200, body) == .accepted(nil))
    }

    @Test func `members of other types are ignored, and an answer with a repeated name has no meaning`() {
        let fields = #""error":{"error":["NotRegistered"]},"x":[{"error":"New"}],"message_id":"0:2""#
        #expect(legacy(200, result(fields)) == .accepted(ByteString("0:2")))
        #expect(legacy(200, #"{"results":[{"error":"NotRegistered"},{}],"y":[]}"#) == .tokenDead(since: nil))
        #expect(
            legacy(200, #"{"results":1,"results":[{"error":"NotRegistered"},{}],"y":[]}"#) == .accepted(nil))
    }

    @Test(arguments: [
        ("NotRegistered", PushOutcome.tokenDead(since: nil)), ("InvalidRegistration", .tokenDead(since: nil)),
        ("MissingRegistration", .payloadRefused("MissingRegistration")),
        ("MessageTooBig", .payloadRefused("MessageTooBig")),
        ("Unavailable", .retry(after: .seconds(3))), ("DeviceMessageRateExceeded", .retry(after: .seconds(3))),
        ("InvalidApnsCredential", .credentialsRefused("InvalidApnsCredential")), ("New", .payloadRefused("New")),
    ])
    func `an error inside 200 counts`(error: String, expected: PushOutcome) {
        #expect(legacy(200, result("\"error\":\"\(error)\""), retryAfter: "3") == expected)
    }

    @Test func `a foreign token is dropped only by a project that has accepted one of the daemon's pushes`() {
        let body = result(#""error":"MismatchSenderId""#)
        #expect(legacy(200, body) == .tokenDead(since: nil))
        #expect(legacy(200, body, isProven: false) == .foreignToken("MismatchSenderId"))
    }

    @Test(arguments: [
        (400, PushOutcome.payloadRefused("status 400")), (401, .credentialsRefused("status 401")),
        (503, .retry(after: .seconds(3))),
    ])
    func `other statuses are judged by their number`(status: Int, expected: PushOutcome) {
        #expect(legacy(status, "", retryAfter: "3") == expected)
    }
}

@Suite("Retry-After (RFC 9110 section 10.2.3)")
struct RetryAfterTests {
    /// The date is `Sun, 06 Nov 1994 08:49:37 GMT`.
    private let date = UnixTime(seconds: 784_111_777)

    @Test(arguments: [
        ("0", 0), ("120", 120), ("999999999999", 3600), ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 1994 08:50:00 GMT", 23), ("Sun, 06 Nov 1994 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2028 00:00:00 GMT", 3600),
    ])
    func `seconds and dates are read`(text: String, seconds: Int) {
        #expect(RetryAfter.duration(text, now: date) == .seconds(seconds))
    }

    @Test func `leap years are known`() {
        // 2028-03-01 00:00:00 UTC.
        let march = UnixTime(seconds: 1_835_481_600)
        #expect(RetryAfter.duration("Wed, 01 Mar 2028 00:00:10 GMT", now: march) == .seconds(10))
        #expect(
            RetryAfter.duration("Tue, 29 Feb 2028 23:59:59 GMT", now: UnixTime(seconds: 1_835_481_590)) == .seconds(9))
    }

    @Test(arguments: [
        "", "-1", "soon", "1.5", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nov 99999 08:49:37 GMT", "99999999999999999999",
    ])
    func `other values have no meaning`(text: String) {
        #expect(RetryAfter.duration(text, now: date) == nil)
    }
}
