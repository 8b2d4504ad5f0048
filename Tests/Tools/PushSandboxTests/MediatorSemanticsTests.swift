import JSON
import PushSandbox
import Testing

@Suite("Answers of Acrobits' push server, in the sandbox")
struct MediatorSemanticsTests {
    private static let call =
        #"{"verb":"NotifyIncomingCall","AppId":"com.example","DeviceToken":"dG9r+/==","Selector":"1/2"}"#

    private func send(_ body: String, type: String = "application/json", method: String = "POST") throws -> (
        SandboxAnswer, PushRecord?
    ) {
        let provider = try Provider()
        let answer = provider.semantics.answer(
            provider.request(method, "/pnm2/send", type.isEmpty ? [:] : ["content-type": type], body))
        return (answer, provider.semantics.records.first)
    }

    private func form(_ body: String, type: String = "application/x-www-form-urlencoded") throws -> SandboxAnswer {
        try Provider().post("/pnm2", ["content-type": type], body)
    }

    @Test func `a call is accepted and recorded`() throws {
        let (answer, record) = try send(Self.call, type: "application/json; charset=utf-8")
        #expect(answer.status == 200 && answer.code == 200)
        #expect(record?.service == "acrobits" && record?.interface == "json")
        #expect(record?.token == "dG9r+/==" && record?.type == "NotifyIncomingCall" && record?.isAccepted == true)
    }

    @Test(arguments: [
        (call, "text/plain", "POST"), (call, "", "POST"), (call, "application/json", "PUT"),
        ("verb=x", "application/json", "POST"), ("[]", "application/json", "POST"), ("", "application/json", "POST"),
    ])
    func `a request that is no JSON object by POST gets status 400`(body: String, type: String, method: String) throws {
        let (answer, record) = try send(body, type: type, method: method)
        #expect(answer.status == 400 && record?.isAccepted == false)
    }

    @Test(arguments: [
        #"{}"#, #"{"verb":"Notify","AppId":"a","DeviceToken":"t","Selector":"s"}"#,
        #"{"verb":"NotifyIncomingCall","DeviceToken":"t","Selector":"s"}"#,
        #"{"verb":"NotifyIncomingCall","AppId":"a","Selector":"s"}"#,
        #"{"verb":"NotifyIncomingCall","AppId":"a","DeviceToken":"t"}"#,
        #"{"verb":"NotifyIncomingCall","AppId":"a","DeviceToken":"t t","Selector":"s"}"#,
        #"{"verb":"NotifyIncomingCall","AppId":"a","DeviceToken":1,"Selector":"s"}"#,
        #"{"verb":"NotifyTextMessage","AppId":"a","DeviceToken":"t","Selector":"s","Badge":"1"}"#,
        #"{"verb":"NotifyTextMessage","AppId":"a","DeviceToken":"t","Selector":"s","Sound":1}"#,
        #"{"verb":"NotifyGenericTextMessage","AppId":"a","DeviceToken":"t"}"#,
    ])
    func `a wrong attribute is reported in the body of a 200`(body: String) throws {
        let (answer, record) = try send(body)
        #expect(answer.status == 200 && answer.code == 400)
        #expect(record?.isAccepted == false && record?.reason?.hasPrefix("400 ") == true)
    }

    @Test(arguments: [
        #"{"verb":"NotifyGenericTextMessage","AppId":"a","DeviceToken":"t","Message":"m"}"#,
        #"{"verb":"NotifyTextMessage","AppId":"a","DeviceToken":"t","Selector":"s","Badge":3,"Sound":"default","New":1}"#,
    ])
    func `messages are accepted`(body: String) throws {
        #expect(try send(body).0.code == 200)
    }

    @Test(arguments: [
        (404, 200, 404), (410, 200, 404), (400, 200, 400), (500, 200, 500), (503, 503, 503), (429, 429, 429),
    ])
    func `a push fails as planned`(planned: Int, status: Int, code: Int64) throws {
        let provider = try Provider()
        #expect(provider.plan("dG9r+%2F==", "{\"status\":\(planned),\"retry_after\":3}") == 200)
        let answer = provider.post("/pnm2/send", ["content-type": "application/json"], Self.call)
        #expect(answer.status == status && answer.code == code && answer.headers["retry-after"] == "3")
        #expect(provider.semantics.records.first?.isAccepted == false)
    }

    @Test func `the older gateway takes forms`() throws {
        let text = "verb=NotifyIncomingCall&AppId=a&DeviceToken=dG9r%2B"
        #expect(try form(text).code == 200)
        // The token is invalid, because a plus sign that is not escaped means a space in a form.
        #expect(try form("verb=NotifyIncomingCall&AppId=a&DeviceToken=dG9r+").code == 400)
        #expect(try form("verb=NotifyTextMessage&AppId=a&DeviceToken=t").code == 400)
        #expect(try form("verb=NotifyTextMessage&AppId=a&DeviceToken=t&Selector=s").code == 200)
        #expect(try form(text, type: "application/json").status == 400)
        for missing in ["AppId=a&DeviceToken=t", "verb=NotifyIncomingCall&AppId=a", ""] {
            #expect(try form(missing).status == 400)
        }
    }
}

extension SandboxAnswer {
    fileprivate var code: Int64? { json["code"]?.integer }
}
