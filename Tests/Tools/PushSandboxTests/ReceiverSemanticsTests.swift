import Crypto
import JSON
import PushSandbox
import Testing
import Timekeeping

@Suite("Answers of a receiver of webhooks")
struct ReceiverSemanticsTests {
    private static let secret = Array("whsec".utf8)

    private func signature(_ body: String, secret: [UInt8] = secret, age: Int64 = 0) throws -> String {
        let signature = try RequestSignature(
            for: Array(body.utf8), secrets: [secret], at: UnixTime(milliseconds: Provider.milliseconds - age * 1000))
        return String(decoding: signature.text, as: UTF8.self)
    }

    @Test func `each request is recorded`() throws {
        let provider = try Provider()
        let headers = [
            "content-type": "application/json", "x-event": "e1", "authorization": "Bearer secret", "cookie": "c",
            "sippushd-signature": "anything",
        ]
        let answer = provider.semantics.answer(
            provider.request("PUT", "/hook/crm/calls?id=1", headers, #"{"event":"call.missed","token":"t1"}"#))
        #expect(answer.status == 200)
        let record = try #require(provider.semantics.records.first)
        #expect(record.service == "http" && record.token == "t1" && record.type == "call.missed")
        #expect(record.line == "PUT /hook/crm/calls?id=1" && record.isAccepted)
        #expect(Set(record.headers.keys) == ["content-type", "x-event", "sippushd-signature"])
        let line = try JSONValue(record.json)
        #expect(line["request"]?.string == record.line && line["body"]?["token"]?.string == "t1")
        #expect(!String(decoding: record.json, as: UTF8.self).contains("Bearer"))
    }

    @Test func `a body without a token is identified by the path`() throws {
        let provider = try Provider()
        for method in ["GET", "POST", "DELETE"] {
            #expect(provider.semantics.answer(provider.request(method, "/hook/crm", [:], "no json")).status == 200)
        }
        #expect(provider.semantics.records.map(\.token) == ["crm", "crm", "crm"])
        #expect(provider.semantics.answer(provider.request("HEAD", "/hook/crm")).body.isEmpty)
        #expect(provider.post("/hook", [:], "").status == 404)
    }

    @Test func `a signature is verified where a secret is known`() throws {
        let provider = try Provider()
        provider.semantics.webhookSecrets = [Array("old".utf8), Self.secret]
        func post(_ signature: String?, _ body: String = "{}") -> SandboxAnswer {
            provider.post("/hook/crm", signature.map { ["sippushd-signature": $0] } ?? [:], body)
        }
        #expect(try post(signature("{}")).status == 200)
        #expect(try post(signature("{}", secret: Array("old".utf8))).status == 200)
        #expect(try post(signature("{}"), "{ }").reason == "BadSignature")
        #expect(try post(signature("{}", secret: [1])).status == 401)
        #expect(try post(signature("{}", age: 300)).status == 200)
        #expect(try post(signature("{}", age: 301)).status == 401)
        #expect(post(nil).reason == "MissingSignature")
        #expect(post("v1=00").reason == "BadSignature")
        #expect(provider.semantics.records.count { $0.isAccepted } == 3)
    }

    @Test func `it fails as planned, by its name or by the token`() throws {
        let provider = try Provider()
        #expect(provider.plan("crm", #"{"status":503,"times":1,"retry_after":4}"#) == 200)
        #expect(provider.plan("t1", #"{"status":410,"reason":"unknown token"}"#) == 200)
        let busy = provider.post("/hook/crm", [:], #"{"token":"t1"}"#)
        #expect(busy.status == 503 && busy.headers["retry-after"] == "4")
        let gone = provider.post("/hook/crm", [:], #"{"token":"t1"}"#)
        #expect(gone.status == 410 && gone.reason == "unknown token")
        #expect(provider.post("/hook/crm", [:], #"{"token":"t2"}"#).status == 200)
        #expect(provider.post("/hook/fail-500-x", [:], "").status == 500)
    }

    @Test func `it may succeed with another status`() throws {
        let provider = try Provider()
        #expect(provider.plan("crm", #"{"status":204}"#) == 200)
        let answer = provider.post("/hook/crm", [:], "{}")
        #expect(answer.status == 204 && answer.body.isEmpty)
        #expect(provider.semantics.records.first?.isAccepted == true)
    }
}
