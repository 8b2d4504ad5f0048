import JSON
import PushSandbox
import Testing

@Suite("Answers of Huawei's Push Kit, in the sandbox")
struct HMSSemanticsTests {
    private func accessToken(_ provider: Provider, app: String = "7", secret: String = "hms-s") -> SandboxAnswer {
        provider.post(
            "/oauth2/v3/token", [:], "grant_type=client_credentials&client_id=\(app)&client_secret=\(secret)")
    }

    private func send(_ provider: Provider, _ body: String, app: String = "7", of owner: String = "7") -> SandboxAnswer
    {
        let token = accessToken(provider, app: owner).json["access_token"]?.string ?? ""
        return provider.post("/v1/\(app)/messages:send", ["authorization": "Bearer \(token)"], body)
    }

    private func code(_ answer: SandboxAnswer) -> String { answer.json["code"]?.string ?? "" }

    private static let call =
        #"{"message":{"data":"{\"type\":\"invite\"}","android":{"ttl":"28s","urgency":"HIGH","collapse_key":-1},"token":["t"]}}"#

    @Test func `a message with an access token is accepted and recorded`() throws {
        let provider = try Provider()
        let answer = send(provider, Self.call)
        #expect(answer.status == 200 && code(answer) == "80000000")
        let record = try #require(provider.semantics.records.first)
        #expect(record.service == "hms" && record.type == "invite" && record.token == "t")
    }

    @Test(arguments: [
        (#"{"message":1}"#, "80300010"), (#"{"message":{"token":[]}}"#, "80300010"), ("{}", "80300010"),
        (#"{"message":{"data":{},"token":["t"]}}"#, "80100003"),
        (#"{"message":{"android":{"ttl":"28"},"token":["t"]}}"#, "80100003"),
        (#"{"message":{"android":{"ttl":"1296001s"},"token":["t"]}}"#, "80100003"),
        (#"{"message":{"android":{"collapse_key":101},"token":["t"]}}"#, "80100003"),
        (#"{"message":{"android":{"notification":{}},"token":["t"]}}"#, "80100003"),
        (#"{"message":{"topic":"x","token":["t"]}}"#, "80100003"),
        ("{\"message\":{\"data\":\"" + String(repeating: "x", count: 4100) + "\",\"token\":[\"t\"]}}", "80300008"),
    ])
    func `a message in the wrong form has Huawei's code`(message: String, expected: String) throws {
        #expect(code(send(try Provider(), message)) == expected)
    }

    @Test func `a token of another app, no token and a wrong secret are refused`() throws {
        let provider = try Provider()
        #expect(code(send(provider, Self.call, app: "8")) == "80200001")
        #expect(code(provider.post("/v1/7/messages:send", [:], Self.call)) == "80200001")
        #expect(accessToken(provider, secret: "hms-wrong").status == 400)
        #expect(accessToken(provider, secret: "other").json["error"]?.integer == 1101)
        #expect(code(send(provider, Self.call, app: "x-without-rights", of: "x-without-rights")) == "80300002")
    }

    @Test func `plans give each code, and 410 stands for a dead token`() throws {
        let provider = try Provider()
        #expect(provider.plan("t", #"{"status":410}"#) == 200)
        let dead = send(provider, Self.call)
        #expect(dead.status == 200 && code(dead) == "80300007")
        #expect(provider.plan("t", #"{"status":200,"reason":"80100000"}"#) == 200)
        let partly = send(provider, Self.call)
        #expect(code(partly) == "80100000" && partly.json["msg"]?.string?.contains("illegal_tokens\":[\"t\"]") == true)
        #expect(provider.plan("t", #"{"status":503}"#) == 200)
        #expect(send(provider, Self.call).status == 503)
    }

    @Test func `a trial is no push`() throws {
        let provider = try Provider()
        let trial = send(provider, #"{"validate_only":true,"message":{"data":"{}","token":["sippushd-trial"]}}"#)
        #expect(code(trial) == "80300007")
        #expect(provider.semantics.trials.count == 1 && provider.semantics.records.isEmpty)
    }
}
