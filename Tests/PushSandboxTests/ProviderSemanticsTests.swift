import PushSandbox
import Testing

@Suite("What the stand-in for providers answers")
struct ProviderSemanticsTests {
    private let semantics = ProviderSemantics { 1_790_000_000_000 }

    private func post(_ target: String, _ body: String, _ headers: [String: String] = [:], version: String = "http/1.1")
        -> SandboxAnswer
    {
        semantics.answer(
            SandboxRequest(
                method: "POST", target: target, headers: headers, body: Array(body.utf8), version: version,
                connection: 1))
    }

    private func text(_ answer: SandboxAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }

    @Test func `a legacy push is taken and recorded`() {
        let answer = post("/fcm/send", "{\"to\":\"t\",\"data\":{\"type\":\"invite\"}}", ["authorization": "key=k"])
        #expect(answer.status == 200)
        #expect(text(answer).contains("\"success\":1"))
        #expect(semantics.records.map(\.type) == ["invite"])
        #expect(semantics.records.map(\.token) == ["t"])
    }

    @Test func `a planned failure comes as often as planned`() {
        let plan = SandboxRequest(
            method: "PUT", target: "/sandbox/tokens/t", headers: [:], body: Array("{\"status\":404,\"times\":1}".utf8),
            version: "http/1.1", connection: 1)
        #expect(semantics.answer(plan).status == 200)
        let push = "{\"to\":\"t\",\"data\":{}}"
        #expect(text(post("/fcm/send", push, ["authorization": "key=k"])).contains("NotRegistered"))
        #expect(text(post("/fcm/send", push, ["authorization": "key=k"])).contains("\"success\":1"))
    }

    @Test func `FCM v1 wants a token of the token service and strings as data`() {
        let push = "{\"message\":{\"token\":\"t\",\"data\":{\"date\":1}}}"
        #expect(post("/v1/projects/p/messages:send", push).status == 401)
        let grant = post("/token", "grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a.b.c")
        let token = text(grant).split(separator: "\"").first { $0.hasPrefix("sandbox-") } ?? ""
        #expect(post("/v1/projects/p/messages:send", push, ["authorization": "Bearer \(token)"]).status == 400)
    }

    @Test(arguments: ["a=b&=", "", "=", "&&", "grant_type"])
    func `an odd form is refused and harms nobody`(form: String) { #expect(post("/token", form).status == 400) }

    @Test(arguments: [
        ("/3/device/aabbccdd", "MissingProviderToken"), ("/3/device/xyz", "BadDeviceToken"),
        ("/3/device/", "MissingDeviceToken"),
    ])
    func `APNs names what is wrong`(target: String, reason: String) {
        #expect(text(post(target, "{\"aps\":{}}", version: "h2")).contains(reason))
    }

    @Test func `a provider token from the end of time is refused`() {
        // {"iat":-9223372036854775808}
        let claims = "eyJpYXQiOi05MjIzMzcyMDM2ODU0Nzc1ODA4fQ"
        let signature = String(repeating: "A", count: 86)
        let answer = post(
            "/3/device/aabbccdd", "{\"aps\":{}}", ["authorization": "bearer e30.\(claims).\(signature)"], version: "h2")
        #expect(answer.status == 403)
    }
}
