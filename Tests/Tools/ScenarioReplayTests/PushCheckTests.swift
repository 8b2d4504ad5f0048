import Testing

@testable import ScenarioReplay

@Suite struct PushCheckTests {
    private static func push(_ token: String, _ body: String, status: Int = 200) -> PushRecord? {
        PushRecord(line: #"{"service":"fcm","token":"\#(token)","status":\#(status),"time":12,"body":\#(body)}"#)
    }

    private static func expected(
        _ token: String, _ type: String, status: Int? = nil, fields: [String: String] = [:]
    ) -> ExpectedPush {
        ExpectedPush(token: token, type: type, status: status, service: nil, fields: fields)
    }

    @Test func `a record is read with its body`() throws {
        let push = try #require(
            Self.push("t1", #"{"data":{"type":"missed_calls","calls":[{"id":0,"remote_uri":"103"}],"x":[]}}"#))
        #expect(push.type == "missed_calls")
        #expect(push.time == 12)
        #expect(push.body.text(at: "data.calls.#") == "1")
        #expect(push.body.text(at: "data.calls.0.remote_uri") == "103")
        #expect(push.body.text(at: "data.calls.0.id") == "0")
        #expect(push.body.text(at: "data.calls.1.id") == nil)
        #expect(push.body.text(at: "data.x") == "[]")
    }

    @Test func `a body may be kept as text`() {
        #expect(Self.push("t1", #""{\"data\":{\"type\":\"invite\"}}""#)?.type == "invite")
    }

    @Test func `a line that is not a push is skipped`() {
        #expect(PushRecord(line: "") == nil)
        #expect(PushRecord(line: "{}") == nil)
        #expect(PushRecord(line: #"{"token":"t"#) == nil)
    }

    @Test func `the pushes that were expected pass`() throws {
        let push = try #require(Self.push("t1", #"{"data":{"type":"invite"}}"#))
        let expected = Self.expected("t1", "invite", fields: ["data.type": "invite"])
        #expect(PushCheck.complaints(about: [push], expected: [expected]).isEmpty)
    }

    @Test func `missing and unexpected pushes are reported`() throws {
        let push = try #require(Self.push("t1", #"{"data":{"type":"invite"}}"#))
        let complaints = PushCheck.complaints(about: [push], expected: [Self.expected("t2", "invite")])
        #expect(complaints == ["1 pushes (invite) for t1, expected 0", "0 pushes for t2, expected 1"])
    }

    @Test func `a wrong type, status or field is reported`() throws {
        let push = try #require(Self.push("t1", #"{"data":{"type":"invite"}}"#, status: 410))
        func complaint(_ expected: ExpectedPush) -> String? {
            PushCheck.complaints(about: [push], expected: [expected]).first
        }
        #expect(
            complaint(Self.expected("t1", "missed_calls"))
                == "push 1 for t1: type is invite, expected missed_calls")
        #expect(
            complaint(Self.expected("t1", "invite", status: 200)) == "push 1 for t1: status is 410, expected 200")
        #expect(
            complaint(Self.expected("t1", "invite", fields: ["data.n": "1"]))
                == "push 1 for t1: data.n is not there, expected 1")
    }
}
