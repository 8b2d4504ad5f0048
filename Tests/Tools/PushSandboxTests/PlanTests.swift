import JSON
import PushSandbox
import Testing

@Suite("Planned failures")
struct PlanTests {
    @Test(arguments: [
        (400, "BadDeviceToken"), (403, "InvalidProviderToken"), (404, "BadPath"), (410, "Unregistered"),
        (429, "TooManyRequests"), (500, "InternalServerError"), (503, "ServiceUnavailable"),
    ])
    func `Apple has a usual reason for each status`(status: Int, reason: String) throws {
        let provider = try Provider()
        #expect(provider.plan(Provider.token, "{\"status\":\(status)}") == 200)
        let answer = try provider.apns()
        #expect(answer.status == status && answer.reason == reason)
        #expect(provider.semantics.records.first?.reason == reason)
        #expect((answer.json["timestamp"]?.integer == Provider.milliseconds) == (status == 410))
    }

    @Test(arguments: [
        (400, 400, "INVALID_ARGUMENT"), (403, 403, "SENDER_ID_MISMATCH"), (404, 404, "UNREGISTERED"),
        (410, 404, "UNREGISTERED"), (429, 429, "QUOTA_EXCEEDED"), (500, 500, "INTERNAL"), (503, 503, "UNAVAILABLE"),
    ])
    func `Google has a usual code for each status`(planned: Int, status: Int, code: String) throws {
        let provider = try Provider()
        #expect(provider.plan("t", "{\"status\":\(planned),\"retry_after\":7}") == 200)
        let answer = try provider.fcm(#"{"token":"t"}"#)
        #expect(answer.status == status && answer.errorCode == code)
        #expect(answer.headers["retry-after"] == "7")
    }

    @Test func `the legacy interface reports a dead token in a 200, and fails with the rest`() throws {
        let provider = try Provider()
        #expect(provider.plan("a", #"{"status":404}"#) == 200)
        #expect(provider.plan("b", #"{"status":200,"reason":"Unavailable"}"#) == 200)
        #expect(provider.plan("c", #"{"status":503}"#) == 200)
        #expect(provider.legacy(#"{"to":"a"}"#).results == ["NotRegistered"])
        #expect(provider.legacy(#"{"to":"b"}"#).results == ["Unavailable"])
        #expect(provider.legacy(#"{"to":"c"}"#).status == 503)
    }

    @Test func `the legacy interface names the token to use from now on`() throws {
        let provider = try Provider()
        #expect(provider.plan("old", #"{"registration_id":"new"}"#) == 200)
        let answer = provider.legacy(#"{"registration_ids":["old","b"]}"#)
        #expect(answer.results == ["sent", "sent"] && answer.json["canonical_ids"]?.integer == 1)
        let results = answer.json["results"]?.array?.map { $0["registration_id"]?.string }
        #expect(results == ["new", nil])
        #expect(try provider.fcm(#"{"token":"old"}"#).status == 200)
    }

    @Test func `Apple reports the time of a token's death`() throws {
        let provider = try Provider()
        #expect(provider.plan(Provider.token, #"{"status":410,"timestamp":1623753491000}"#) == 200)
        #expect(try provider.apns().json["timestamp"]?.integer == 1_623_753_491_000)
    }

    @Test func `a plan for some pushes ends with the last of them`() throws {
        let provider = try Provider()
        #expect(provider.plan(Provider.token, #"{"status":503,"times":2}"#) == 200)
        // An invalid push does not use up a step of the failure plan.
        #expect(try provider.apns(["apns-topic": ""]).status == 400)
        let upperCase = Provider.token.uppercased()
        #expect(try provider.apns(token: upperCase).status == 503)
        #expect(try provider.apns().status == 503)
        #expect(try provider.apns().status == 200)
    }

    @Test func `a plan can be removed`() throws {
        let provider = try Provider()
        #expect(provider.plan("a%2Fb", #"{"status":503}"#) == 200)
        #expect(provider.legacy(#"{"to":"a/b"}"#).status == 503)
        #expect(provider.semantics.answer(provider.request("DELETE", "/sandbox/tokens/a%2Fb")).status == 200)
        #expect(provider.legacy(#"{"to":"a/b"}"#).status == 200)
    }

    @Test func `a token may contain its own failure`() throws {
        let provider = try Provider()
        #expect(provider.legacy(#"{"to":"fail-503-x"}"#).status == 503)
        #expect(try provider.fcm(#"{"token":"fail-404"}"#).errorCode == "UNREGISTERED")
        #expect(provider.legacy(#"{"to":"fail-200-x"}"#).results == ["sent"])
    }

    @Test(arguments: [
        (#"{"action":"goaway"}"#, SandboxAnswer.Fault.goaway, 0), (#"{"action":"reset"}"#, .reset, 0),
        (#"{"status":200,"action":"goaway"}"#, .goaway, 200), (#"{"status":503,"action":"goaway"}"#, .goaway, 503),
        (#"{"status":200,"action":"reset"}"#, .reset, 0),
    ])
    func `a connection is broken before or after the answer`(
        plan: String, fault: SandboxAnswer.Fault, status: Int
    ) throws {
        let provider = try Provider()
        #expect(provider.plan(Provider.token, plan) == 200)
        let answer = try provider.apns()
        #expect(answer.fault == fault && answer.status == status)
        #expect(provider.semantics.records.first?.status == status)
    }

    @Test func `an answer is late`() throws {
        let provider = try Provider()
        #expect(provider.plan("a", #"{"delay_ms":250}"#) == 200)
        let answer = provider.legacy(#"{"to":"a"}"#)
        #expect(answer.delay == .milliseconds(250) && answer.results == ["sent"])
    }

    @Test(arguments: [
        "", "[]", #"{"statsu":410}"#, #"{"status":"410"}"#, #"{"status":99}"#, #"{"times":0}"#, #"{"delay_ms":-1}"#,
        #"{"action":"explode"}"#, #"{"reason":1}"#, #"{"registration_id":1}"#,
    ])
    func `an invalid plan is refused`(plan: String) throws {
        #expect(try Provider().plan("a", plan) == 400)
    }

    @Test func `pushes are listed by token and forgotten`() throws {
        let provider = try Provider()
        _ = provider.legacy(#"{"to":"a:1","data":{"type":"invite"}}"#)
        _ = provider.legacy(#"{"to":"b"}"#)
        func list(_ target: String) -> [JSONValue]? {
            provider.semantics.answer(provider.request("GET", target)).json.array
        }
        #expect(list("/sandbox/pushes")?.count == 2)
        let found = list("/sandbox/pushes?token=a%3A1")
        #expect(found?.count == 1)
        #expect(found?.first?["body"]?["data"]?["type"]?.string == "invite")
        #expect(found?.first?["time"]?.integer == Provider.milliseconds)
        #expect(provider.semantics.answer(provider.request("DELETE", "/sandbox/pushes")).status == 200)
        #expect(list("/sandbox/pushes")?.isEmpty == true)
    }

    @Test func `the controls need their key`() throws {
        let provider = try Provider()
        var request = provider.request("GET", "/sandbox/pushes")
        request.mayControl = false
        #expect(provider.semantics.answer(request).status == 404)
        #expect(provider.semantics.answer(provider.request("POST", "/sandbox/pushes")).status == 405)
        #expect(provider.semantics.answer(provider.request("POST", "/elsewhere")).status == 404)
    }

    @Test func `a record is one line, with any content`() throws {
        let provider = try Provider()
        _ = provider.legacy("{\n  \"to\": \"a\"\n}")
        _ = provider.legacy("no\njson")
        for record in provider.semantics.records {
            #expect(!record.json.contains(UInt8(ascii: "\n")))
            #expect(throws: Never.self) { try JSONValue(record.json) }
        }
    }
}
