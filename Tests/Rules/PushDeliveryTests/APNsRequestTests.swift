import Bytes
import JSON
import PushDelivery
import Testing
import Timekeeping

private let voip = token(.apns, "AABB", param: "T.com.example.phone.voip")
private let remote = token(.apns, "CCDD", param: "T.com.example.phone")
private let both = token(.apns, "AABB:voip&CCDD:remote", param: "T.com.example.phone.voip&remote")
private let threeCalls = missedCalls([("103", 1_625_158_716), ("105", 1_625_158_725), ("103", 1_625_158_736)])

@Suite("APNs requests (R13, R25, A14 to A19, A26, A28)")
struct APNsRequestTests {
    private let settings = PushSettings.sample

    // MARK: Payloads

    @Test func `an incoming call has the shape of the sample`() {
        let body = settings.body(push(to: voip, incomingCall(from: "uri", name: "name")))
        let expected =
            #"{"aps":{"badge":"10"},"acme":{"badge":"10","type":"invite","date":1623753691,"number":"uri","#
            + #""dispaly_name":"name"}}"#
        #expect(body == expected)
    }

    @Test func `missed calls have the shape of the sample`() {
        let body = settings.body(push(to: remote, threeCalls))
        let expected =
            #"{"aps":{"badge":"10"},"acme":{"type":"missed_calls","date":1623753691,"calls":["#
            + #"{"id":0,"remote_uri":"103","date":1625158716},{"id":1,"remote_uri":"105","date":1625158725},"#
            + #"{"id":2,"remote_uri":"103","date":1625158736}]},"time_to_live":120}"#
        #expect(body == expected)
    }

    @Test(arguments: [
        ("sip:103@example.net", "", false, #""number":"sip:103@example.net","dispaly_name":[]"#),
        ("sip:103@example.net", "Анна \"A\"", false, #""number":"sip:103@example.net","dispaly_name":"Анна \"A\"""#),
        ("sip:103@example.net", "Anna", true, #""number":"anonymous","dispaly_name":[]"#),
        ("", "Anna", false, #""number":"anonymous","dispaly_name":[]"#),
    ])
    func `the caller is named, or anonymous without a name`(
        uri: String, name: String, isAnonymous: Bool, expected: String
    ) throws {
        let body = try #require(
            settings.body(push(to: voip, incomingCall(from: uri, name: name, isAnonymous: isAnonymous))))
        #expect(body.hasSuffix(expected + "}}"))
    }

    @Test func `the badge is a number if the settings ask for it`() throws {
        var settings = settings
        settings.apns.badgeType = .number
        let call = try #require(settings.body(push(to: voip, incomingCall(), badge: 3)))
        #expect(call.hasPrefix(#"{"aps":{"badge":3},"acme":{"badge":3,"type":"#))
        let list = try #require(settings.body(push(to: remote, threeCalls, badge: 0)))
        #expect(list.hasPrefix(#"{"aps":{"badge":0},"acme":{"type":"#))
    }

    @Test func `a call keeps the date of its INVITE, a list has the date of the push`() throws {
        let later = sampleDate + .seconds(5)
        #expect(try #require(settings.body(push(to: voip, incomingCall()), now: later)).contains(#""date":1623753691"#))
        #expect(try #require(settings.body(push(to: remote, threeCalls), now: later)).contains(#""date":1623753696"#))
    }

    // MARK: Headers

    @Test func `a call goes to the VoIP token as a VoIP push that ends with the ring timeout`() throws {
        for token in [voip, both] {
            let request = try #require(settings.rendered(push(to: token, incomingCall())))
            #expect(request.path == "/3/device/aabb")
            #expect(request.header("apns-topic") == "com.example.phone.voip")
            #expect(request.header("apns-push-type") == "voip")
            #expect(request.header("apns-priority") == "10")
            #expect(request.header("apns-expiration") == "1623753721")
            #expect(request.header("apns-collapse-id") == nil)
        }
    }

    @Test func `without a VoIP token a call is an alert`() throws {
        let request = try #require(settings.rendered(push(to: remote, incomingCall())))
        #expect(request.path == "/3/device/ccdd")
        #expect(request.header("apns-topic") == "com.example.phone")
        #expect(request.header("apns-push-type") == "alert")
    }

    @Test func `missed calls are never a VoIP push`() throws {
        let request = try #require(settings.rendered(push(to: both, threeCalls)))
        #expect(request.path == "/3/device/ccdd")
        #expect(request.header("apns-topic") == "com.example.phone")
        #expect(request.header("apns-push-type") == "alert")
        #expect(request.header("apns-expiration") == "1623753811")
        #expect(
            settings.render(push(to: voip, threeCalls), now: sampleDate)
                == .impossible(.noSuitableToken))
    }

    @Test func `a push keeps its id, and a list replaces only its own earlier versions`() throws {
        let request = try #require(settings.rendered(push(to: remote, threeCalls)))
        #expect(request.header("apns-id") == "12345678-9abc-4ef0-bedc-ba9876543210")
        let collapseID = try #require(request.header("apns-collapse-id"))
        #expect(collapseID.utf8.count <= 64)
        guard
            case .request(let again) = settings.render(
                push(
                    to: remote, missedCalls([("103", 1_625_158_716), ("105", 1_625_158_725), ("104", 1_625_158_999)]),
                    code: PushCode(high: 1, low: 2))),
            case .request(let other) = settings.render(push(to: remote, missedCalls([("104", 40)])))
        else { return #expect(Bool(false)) }
        #expect(again.header("apns-id") == "00000000-0000-4001-8000-000000000002")
        #expect(again.header("apns-collapse-id") == collapseID)
        #expect(other.header("apns-collapse-id") != collapseID)
    }

    @Test(arguments: [
        (["com.a"], "T.com.a.voip", "com.a.voip"), (["com.a", "com.b"], "T.com.b.voip", "com.b.voip"),
        (["com.a"], "T.com.evil.voip", nil), (["com.a"], "line.voip", "com.a.voip"), (["com.a"], "com.a", "com.a.voip"),
        (["com.a", "com.b"], "", nil), ([], "T.com.b.voip", "com.b.voip"),
    ])
    func `the device chooses among our topics`(topics: [String], param: String, expected: String?) throws {
        var settings = settings
        settings.apns.topics = topics
        settings.apns.tokenService = .voip
        let request = settings.rendered(push(to: token(.apns, "AB", param: param), incomingCall()))
        #expect(request?.header("apns-topic") == expected)
    }

    @Test func `without any topic there is no push`() {
        var settings = settings
        settings.apns.topics = []
        #expect(settings.app(of: token(.apns, "AB")) == nil)
    }

    @Test func `parameters that do not pair up give no push`() {
        let odd = token(.apns, "AB:voip", param: "T.b.remote")
        #expect(
            settings.render(push(to: odd, incomingCall()), now: sampleDate)
                == .impossible(.noSuitableToken))
    }

    // MARK: Limits

    @Test func `a long list loses its oldest calls and is numbered again`() throws {
        let calls = (0..<100).map { (String(repeating: "5", count: 60) + "\($0)", Int64(1_625_000_000 + $0)) }
        let body = try #require(settings.rendered(push(to: remote, missedCalls(calls)))?.body)
        #expect(body.count <= 4096)
        #expect(body.count > 3900)
        let list = try #require(try JSONValue(body)["acme"]?["calls"]?.array)
        #expect(list.count < 100)
        #expect(list.map { $0["id"]?.integer } == (0..<list.count).map { Int64($0) })
        #expect(list.last?["remote_uri"]?.string == calls[99].0)
        #expect(list.first?["remote_uri"]?.string == calls[100 - list.count].0)
    }

    @Test func `the longest names still fit`() throws {
        let name = String(repeating: "\u{1}", count: 4096)
        let call = push(to: remote, incomingCall(from: "sip:\(name)@example.net", name: name), badge: .max)
        let body = try #require(settings.rendered(call)?.body)
        #expect(body.count <= 4096)
        #expect(throws: Never.self) { try JSONValue(body) }
        let list = push(to: remote, missedCalls([(name, 1), (name, 2)]), badge: .max)
        let listBody = try #require(settings.rendered(list)?.body)
        #expect(listBody.count <= 4096)
        #expect(try JSONValue(listBody)["acme"]?["calls"]?.array?.count == 2)
    }
}
