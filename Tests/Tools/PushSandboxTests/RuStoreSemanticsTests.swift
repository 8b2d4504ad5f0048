import JSON
import PushSandbox
import Testing

@Suite("Answers of RuStore, in the sandbox")
struct RuStoreSemanticsTests {
    private func send(
        _ provider: Provider, _ message: String, project: String = "shop", token: String = "rustore-1"
    ) -> SandboxAnswer {
        provider.post(
            "/v1/projects/\(project)/messages:send", ["authorization": "Bearer \(token)"], "{\"message\":\(message)}")
    }

    @Test func `a message with a service token is accepted and recorded`() throws {
        let provider = try Provider()
        let answer = send(provider, #"{"token":"t:1","data":{"type":"invite"},"android":{"ttl":"28s"}}"#)
        #expect(answer.status == 200)
        let record = try #require(provider.semantics.records.first)
        #expect(record.service == "rustore" && record.type == "invite" && record.token == "t:1")
    }

    @Test(arguments: [
        "1", "{}", #"{"token":""}"#, #"{"token":"a","data":{"n":1}}"#, #"{"token":"a","topic":"b"}"#,
        #"{"token":"a","android":{"priority":"HIGH"}}"#, #"{"token":"a","android":{"ttl":"28"}}"#,
    ])
    func `a message in the wrong form is an invalid argument`(message: String) throws {
        let answer = send(try Provider(), message)
        #expect(answer.status == 400 && answer.json["error"]?["status"]?.string == "INVALID_ARGUMENT")
    }

    @Test func `errors have two shapes, and a dead token is 404`() throws {
        let provider = try Provider()
        #expect(provider.plan("gone", #"{"status":410}"#) == 200)
        let nested = send(provider, #"{"token":"gone"}"#)
        #expect(nested.status == 404 && nested.json["error"]?["status"]?.string == "NOT_FOUND")
        let flat = send(provider, #"{"token":"gone"}"#, project: "flat-shop")
        #expect(flat.status == 404 && flat.json["status"]?.string == "NOT_FOUND")
    }

    @Test func `a wrong service token is refused, and a trial is no push`() throws {
        let provider = try Provider()
        #expect(send(provider, #"{"token":"a"}"#, token: "rustore-wrong").status == 403)
        #expect(send(provider, #"{"token":"sippushd-trial","data":{}}"#).status == 404)
        #expect(provider.semantics.trials.count == 1)
    }
}
