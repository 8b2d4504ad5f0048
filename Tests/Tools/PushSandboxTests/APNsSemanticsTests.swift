import Crypto
import JSON
import PushSandbox
import Testing

@Suite("Answers of Apple, in the sandbox")
struct APNsSemanticsTests {
    /// A provider token whose time is near the largest integer, with a wrong signature of the right length.
    private static let endOfTime =
        "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJ0IiwiaWF0IjotOTIyMzM3MjAzNjg1NDc3NTgwOH0."
        + String(repeating: "A", count: 86)

    @Test func `a call by VoIP push is accepted and recorded`() throws {
        let provider = try Provider()
        let id = "123e4567-e89b-12d3-a456-42665544000a"
        let answer = try provider.apns(["apns-id": id])
        #expect(answer.status == 200 && answer.body.isEmpty)
        #expect(answer.headers["apns-id"] == id)
        let record = try #require(provider.semantics.records.first)
        #expect(record.service == "apns" && record.type == "invite" && record.token == Provider.token)
        #expect(record.isAccepted && record.connection == 7 && record.version == "h2")
    }

    @Test func `a push without an id gets one`() throws {
        let provider = try Provider()
        let first = try #require(try provider.apns().headers["apns-id"])
        let second = try #require(try provider.apns().headers["apns-id"])
        #expect(first.utf8.count == 36 && first != second)
    }

    @Test(arguments: [
        (["apns-topic": ""], 400, "MissingTopic"),
        (["apns-topic": "a b.voip"], 400, "BadTopic"),
        (["apns-topic": "com.example.phone"], 400, "TopicDisallowed"),
        (["apns-push-type": "alert"], 400, "TopicDisallowed"),
        (["apns-push-type": "ring"], 400, "InvalidPushType"),
        (["apns-priority": "7"], 400, "BadPriority"),
        (["apns-topic": "a", "apns-push-type": "background"], 400, "BadPriority"),
        (["apns-expiration": "soon"], 400, "BadExpirationDate"),
        (["apns-id": "7"], 400, "BadMessageId"),
        (["apns-collapse-id": String(repeating: "c", count: 65)], 400, "BadCollapseId"),
        (["authorization": ""], 403, "MissingProviderToken"),
        (["authorization": "bearer a.b"], 403, "InvalidProviderToken"),
        (["authorization": "bearer e30.e30.e30"], 403, "InvalidProviderToken"),
        (["authorization": "basic e30.e30.e30"], 403, "InvalidProviderToken"),
        (["authorization": "bearer \(Self.endOfTime)"], 403, "InvalidProviderToken"),
    ])
    func `headers are checked`(changes: [String: String], status: Int, reason: String) throws {
        let answer = try Provider().apns(changes)
        #expect(answer.status == status && answer.reason == reason)
    }

    @Test(arguments: [
        ["apns-topic": "a", "apns-push-type": "alert", "apns-priority": ""],
        ["apns-topic": "a", "apns-push-type": ""],
        ["apns-topic": "a", "apns-push-type": "background", "apns-priority": "5"],
        ["apns-collapse-id": String(repeating: "c", count: 64)],
    ])
    func `a payload within the limit is accepted`(changes: [String: String]) throws {
        #expect(try Provider().apns(changes).status == 200)
    }

    @Test(arguments: [
        ("", 400, "PayloadEmpty"), ("{", 400, "PayloadEmpty"), ("[1]", 400, "PayloadEmpty"),
        (#"{"aps":{},"acme":{"type":"missed_calls"}}"#, 400, "InvalidPushType"),
        (#"{"aps":"\#(String(repeating: "x", count: 5111))"}"#, 413, "PayloadTooLarge"),
    ])
    func `payloads are checked`(body: String, status: Int, reason: String) throws {
        let answer = try Provider().apns(body: body)
        #expect(answer.status == status && answer.reason == reason)
    }

    @Test func `a VoIP payload has 5120 bytes and another 4096`() throws {
        let provider = try Provider()
        func body(_ count: Int) -> String { #"{"aps":"\#(String(repeating: "x", count: count - 10))"}"# }
        let alert = ["apns-topic": "a", "apns-push-type": "alert"]
        #expect(body(4096).utf8.count == 4096)
        #expect(try provider.apns(body: body(5120)).status == 200)
        #expect(try provider.apns(body: body(5121)).status == 413)
        #expect(try provider.apns(alert, body: body(4096)).status == 200)
        #expect(try provider.apns(alert, body: body(4097)).status == 413)
    }

    @Test(arguments: ["xyz", "0a0", "0g0a0b0c", "", "0a0a"])
    func `a token is hexadecimal`(token: String) throws {
        let answer = try Provider().apns(token: token)
        #expect(answer.status == 400)
        #expect(answer.reason == (token.isEmpty ? "MissingDeviceToken" : "BadDeviceToken"))
    }

    @Test func `other methods and repeated headers are refused`() throws {
        #expect(try Provider().apns(method: "PUT").status == 405)
        #expect(try Provider().apns(repeated: ["apns-topic"]).reason == "DuplicateHeaders")
    }

    @Test func `provider tokens are verified and grow old`() throws {
        let provider = try Provider()
        func reason(_ token: String) throws -> String? {
            try provider.apns(["authorization": "bearer \(token)"]).reason
        }
        #expect(try reason(provider.webToken(age: 3599)) == nil)
        #expect(try reason(provider.webToken(age: 3600)) == "ExpiredProviderToken")
        #expect(try reason(provider.webToken(age: -400)) == "InvalidProviderToken")
        #expect(try reason(provider.webToken(header: #"{"alg":"ES256"}"#)) == "InvalidProviderToken")
        #expect(try reason(provider.webToken(header: #"{"alg":"none","kid":"k"}"#)) == "InvalidProviderToken")
        let other = try ProviderKey(.bytes(SelfSignedCertificate(hosts: ["b"]).key), for: .es256)
        #expect(try reason(provider.webToken(key: other)) == "InvalidProviderToken")
    }

    @Test func `without a key the age still counts`() {
        let semantics = ProviderSemantics { Provider.milliseconds }
        let answer = semantics.answer(
            SandboxRequest(
                method: "POST", target: "/3/device/\(Provider.token)",
                headers: ["authorization": "bearer \(Self.endOfTime)"], body: [], version: "h2", connection: 1))
        #expect(answer.status == 403 && answer.reason == "ExpiredProviderToken")
    }

    @Test func `a credential is recorded as a digest`() throws {
        let provider = try Provider()
        let token = try provider.webToken()
        _ = try provider.apns(["authorization": "bearer \(token)"])
        _ = try provider.apns(["authorization": "bearer \(token)"])
        let records = provider.semantics.records
        #expect(Set(records.map(\.credential)).count == 1 && records[0].credential.utf8.count == 12)
        let line = String(decoding: records[0].json, as: UTF8.self)
        #expect(line.contains(records[0].credential) && !line.contains(token.suffix(20)))
    }
}

@Suite("Trials of credentials at the providers")
struct TrialSemanticsTests {
    private let nobody = String(repeating: "0", count: 64)

    @Test func `a token of no device is refused after all else, and is no push`() throws {
        let provider = try Provider()
        let answer = try provider.apns(token: nobody)
        #expect(answer.status == 400 && answer.reason == "BadDeviceToken")
        #expect(try provider.apns(["authorization": "bearer a.b"], token: nobody).reason == "InvalidProviderToken")
        provider.semantics.topics = ["com.example.other"]
        #expect(try provider.apns(token: nobody).reason == "TopicDisallowed")
        #expect(provider.semantics.records.isEmpty && provider.semantics.trials.count == 3)
    }
}
