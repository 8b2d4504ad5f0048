import Crypto
import JSON
import PushSandbox
import Testing

@Suite("Answers of Google, in the sandbox")
struct FCMSemanticsTests {
    @Test func `a message with an access token is accepted`() throws {
        let provider = try Provider()
        let answer = try provider.fcm(
            #"{"token":"t:1","data":{"type":"invite"},"android":{"priority":"HIGH","ttl":"28s"}}"#)
        #expect(answer.status == 200)
        #expect(answer.json["name"]?.string?.hasPrefix("projects/sandbox/messages/") == true)
        let record = try #require(provider.semantics.records.first)
        #expect(record.service == "fcm" && record.interface == "v1" && record.type == "invite" && record.token == "t:1")
    }

    @Test(arguments: [
        "1", #"{"data":{}}"#, #"{"token":1}"#, #"{"token":""}"#, #"{"token":"a","topic":"b"}"#,
        #"{"token":"a","data":{"n":1}}"#, #"{"token":"a","data":{"b":true}}"#, #"{"token":"a","data":[]}"#,
        #"{"token":"a","data":{"google.x":"1"}}"#, #"{"token":"a","data":{"from":"1"}}"#, #"{"token":"a","to":"b"}"#,
        #"{"token":"a","android":{"ttl":28}}"#, #"{"token":"a","android":{"ttl":"28"}}"#,
        #"{"token":"a","android":{"ttl":"-1s"}}"#, #"{"token":"a","android":{"ttl":".5s"}}"#,
        #"{"token":"a","android":{"ttl":"2419201s"}}"#, #"{"token":"a","android":{"ttl":"1.0000000001s"}}"#,
        #"{"token":"a","android":{"priority":10}}"#, #"{"token":"a","android":{"time_to_live":1}}"#,
        #"{"token":"a","android":{"data":{"n":1}}}"#,
        #"{"token":"a","data":{"k":"\#(String(repeating: "x", count: 4096))"}}"#,
    ])
    func `a message in the wrong form is an invalid argument`(message: String) throws {
        let answer = try Provider().fcm(message)
        #expect(answer.status == 400 && answer.errorCode == "INVALID_ARGUMENT")
    }

    @Test(arguments: ["0s", "28s", "3.5s", "2419200s"])
    func `a ttl is a duration`(ttl: String) throws {
        #expect(try Provider().fcm(#"{"token":"a","android":{"ttl":"\#(ttl)"}}"#).status == 200)
    }

    @Test(arguments: ["Bearer other", "key=secret", ""])
    func `only tokens of the token service count`(authorization: String) throws {
        let answer = try Provider().fcm(#"{"token":"a"}"#, authorization: authorization)
        #expect(answer.status == 401 && answer.errorCode == nil)
        #expect(answer.json["error"]?["status"]?.string == "UNAUTHENTICATED")
    }

    @Test func `the token service checks the assertion`() throws {
        let provider = try Provider()
        let granted = try provider.grant()
        #expect(granted.status == 200 && granted.json["expires_in"]?.integer == 3600)
        #expect(granted.json["token_type"]?.string == "Bearer")
        let other = try ProviderKey(.bytes(GeneratedKey.rsa()), for: .rs256)
        let refused = try [
            provider.grant(scope: "email"), provider.grant(lifetime: 3601), provider.grant(age: 3600),
            provider.grant(age: -400), provider.grant(audience: "http://x/"), provider.grant(key: other),
            provider.post("/token", [:], "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"),
        ]
        for answer in refused {
            #expect(answer.status == 400 && answer.json["error"]?.string == "invalid_grant")
        }
        let type = provider.post("/token", [:], "grant_type=password")
        #expect(type.json["error"]?.string == "unsupported_grant_type")
    }

    @Test(arguments: ["a=b&=", "", "=", "&&", "grant_type", "grant_type=%", "%3D%3d=1"])
    func `an invalid form is refused and harms nobody`(form: String) throws {
        #expect(try Provider().post("/token", [:], form).status == 400)
    }

    @Test func `the legacy interface takes the messages of ECSS-10`() throws {
        let provider = try Provider()
        let answer = provider.legacy(
            #"{"to":"bob","priority":10,"time_to_live":28,"data":{"type":"invite","date":1623753691}}"#)
        #expect(answer.status == 200 && answer.results == ["sent"])
        #expect(answer.json["success"]?.integer == 1 && answer.json["failure"]?.integer == 0)
        #expect(provider.semantics.records.first?.interface == "legacy")
        #expect(provider.semantics.records.first?.type == "invite")
    }

    @Test func `each recipient of the legacy interface has its result and its record`() throws {
        let provider = try Provider()
        #expect(provider.plan("b", #"{"status":410,"reason":"Unregistered"}"#) == 200)
        let answer = provider.legacy(#"{"registration_ids":["a","b",""]}"#)
        #expect(answer.status == 200 && answer.results == ["sent", "NotRegistered", "MissingRegistration"])
        #expect(answer.json["success"]?.integer == 1 && answer.json["failure"]?.integer == 2)
        #expect(provider.semantics.records.map(\.token) == ["a", "b", ""])
        #expect(provider.semantics.records.map(\.isAccepted) == [true, false, false])
    }

    @Test(arguments: [
        (#"{"to":"a","time_to_live":"28"}"#, "InvalidTtl"), (#"{"to":"a","time_to_live":2419201}"#, "InvalidTtl"),
        (#"{"to":"a","priority":"loud"}"#, "InvalidParameters"), (#"{"to":"a","data":1}"#, "InvalidParameters"),
        (#"{"to":"a","data":{"gcm.x":1}}"#, "InvalidDataKey"), (#"{}"#, "MissingRegistration"),
    ])
    func `a wrong parameter is an error of the recipient`(body: String, error: String) throws {
        let answer = try Provider().legacy(body)
        #expect(answer.status == 200 && answer.results == [error])
    }

    @Test func `a wrong key and a wrong text are errors of the request`() throws {
        #expect(try Provider().legacy(#"{"to":"a"}"#, authorization: "Bearer x").status == 401)
        #expect(try Provider().legacy("to=a").status == 400)
    }
}
