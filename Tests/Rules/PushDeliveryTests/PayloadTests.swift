import Bytes
import JSON
import PushDelivery
import Testing
import Timekeeping

private let code = "12345678-9abc-4ef0-bedc-ba9876543210"
private let apple = token(.apns, "aabb:voip&ccdd:remote", param: "T.com.example.phone.voip&remote")
private let remote = token(.apns, "ccdd", param: "T.com.example.phone.remote")
private let android = token(.fcm)

@Suite("Payloads of the 10darts platform")
struct TenDartsPayloadTests {
    @Test func `Android gets strings in data`() {
        #expect(
            PushSettings.sample(.tenDarts).body(push(to: android, incomingCall()))
                == #"{"message":{"token":"device_token","android":{"priority":"HIGH","ttl":"28s"},"data":{"#
                + #""id":"\#(code)","message":"Anna","title":"Incoming call","badge":"10","dst":"call","#
                + #""dsc":"0000000000000001","cfm":"1","sil":"0","org":"10d","#
                + #""ctm":"{\"type\":\"invite\",\"date\":1623753691,\"number\":\"sip:103@example.net\",\"display_name\":\"Anna\",\"call_id\":\"a84b4c76e66710@pc33.example.net\",\"sent\":1623753691}"}}}"#
        )
    }

    @Test func `iOS gets alert, badge and the title twice`() {
        #expect(
            PushSettings.sample(.tenDarts).body(push(to: remote, incomingCall()))
                == #"{"aps":{"alert":{"title":"Incoming call","body":"Anna"},"sound":"default","badge":10},"#
                + #""id":"\#(code)","title":"Incoming call","dst":"call","dsc":"0000000000000001","cfm":1,"sil":0,"#
                + #""org":"10d","ctm":{"type":"invite","date":1623753691,"number":"sip:103@example.net","display_name":"Anna","#
                + #""call_id":"a84b4c76e66710@pc33.example.net","sent":1623753691}}"#
        )
    }

    @Test func `iOS silent has exactly its keys, and priority 5`() throws {
        let request = try #require(
            PushSettings.sample(.tenDarts, .background).rendered(push(to: remote, incomingCall())))
        #expect(
            request.text
                == #"{"aps":{"content-available":1},"id":"\#(code)","dst":"call","dsc":"0000000000000001","cfm":1,"sil":1,"org":"10d","ctm":{"call_id":"a84b4c76e66710@pc33.example.net","sent":1623753691}}"#
        )
        #expect(request.header("apns-push-type") == "background")
        #expect(request.header("apns-priority") == "5")
        #expect(request.header("apns-topic") == "com.example.phone")
    }

    @Test func `missed calls name the newest first`() throws {
        let list = missedCalls([("103", 1_625_158_716), ("105", 1_625_158_725)])
        let body = try JSONValue(
            Array(try #require(PushSettings.sample(.tenDarts).body(push(to: android, list, badge: 2))).utf8))
        let data = try #require(body["message"]?["data"])
        #expect(data["message"]?.string == "105, 103")
        #expect(data["title"]?.string == "Missed calls")
        #expect(data["dst"]?.string == "missed_calls")
        let custom = try JSONValue(Array(try #require(data["ctm"]?.string).utf8))
        #expect(custom["calls"]?.array?.count == 2)
    }

    @Test func `the device's code is in ctm of notifications, together with the sender's members`() throws {
        func custom(
            _ json: String?, to token: PushToken = android, device: String = "Vb0-_9", text: String = "t"
        ) throws -> String? {
            var notification = PushNotification(expiresAt: sampleDate + .seconds(86_400))
            notification.text = ByteString(text)
            if let json { notification.custom = CustomData(try JSONValue(Array(json.utf8))) }
            let push = push(to: token, .notification(notification))
            let app = try #require(PushSettings.sample(.tenDarts, .alert).app(of: push.token))
            let rendering = app.render(push, deviceCode: ByteString(device), now: sampleDate)
            guard case .request(let request) = rendering else { return nil }
            let body = try JSONValue(Array(request.text.utf8))
            let ctm = body["ctm"] ?? body["message"]?["data"]?["ctm"]
            guard let text = ctm?.string else {
                var json: [UInt8] = []
                ctm?.append(to: &json)
                return String(decoding: json, as: UTF8.self)
            }
            return text
        }
        for token in [android, remote] {
            #expect(try custom(nil, to: token) == #"{"device":"Vb0-_9"}"#)
            #expect(try custom("{}", to: token) == #"{"device":"Vb0-_9"}"#)
            #expect(try custom(#"{"a":{"device":1}}"#, to: token) == #"{"a":{"device":1},"device":"Vb0-_9"}"#)
            // If the sender's JSON object has a member `device`, the payload contains this member once and unchanged.
            #expect(try custom(#"{"device":7}"#, to: token) == #"{"device":7}"#)
        }
        // The sender's JSON object stays unchanged if the payload has no room for the member `device`.
        let large = #"{"a":"\#(String(repeating: "x", count: 3700))"}"#
        #expect(try custom(large, to: remote) == #"{"a":"\#(String(repeating: "x", count: 3700))","device":"Vb0-_9"}"#)
        #expect(try custom(large, to: remote, device: String(repeating: "d", count: 400)) == large)
    }

    @Test func `the device's code is in ctm, except in silent pushes`() throws {
        let device = ByteString("Vb0-_9")
        func body(_ push: PushRequest, _ type: RemotePushType = .alert) throws -> String {
            let app = try #require(PushSettings.sample(.tenDarts, type).app(of: push.token))
            #expect(app.asksForDeviceCode)
            guard case .request(let request) = app.render(push, deviceCode: device, now: sampleDate) else { return "" }
            return request.text
        }
        let call = try body(push(to: remote, incomingCall()))
        #expect(
            call.hasSuffix(
                #""org":"10d","ctm":{"type":"invite","date":1623753691,"number":"sip:103@example.net","#
                    + #""display_name":"Anna","call_id":"a84b4c76e66710@pc33.example.net","sent":1623753691,"#
                    + #""device":"Vb0-_9"}}"#))
        let data = try body(push(to: android, incomingCall()))
        #expect(data.contains(#"\"sent\":1623753691,\"device\":\"Vb0-_9\"}""#))
        let list = try body(push(to: remote, missedCalls([("103", 1_625_158_716)])))
        #expect(list.hasSuffix(#"],"device":"Vb0-_9"}}"#))
        _ = try JSONValue(Array(list.utf8))
        let silent = try body(push(to: remote, incomingCall()), .background)
        #expect(!silent.contains("Vb0-_9"))
        // The list of missed calls always fits into a push, even if there are many calls.
        let long = try body(push(to: remote, missedCalls((0..<200).map { ("0123456789", $0) })))
        #expect(long.utf8.count <= 4096 && long.contains("Vb0-_9"))
        #expect(!PushSettings.sample.isAskedForDeviceCode)
    }

    @Test func `an anonymous caller stays so`() throws {
        var settings = PushSettings.sample(.tenDarts)
        settings.payload.texts.anonymous = "Unbekannt"
        let body = try #require(settings.body(push(to: android, incomingCall(isAnonymous: true))))
        #expect(body.contains("Unbekannt"))
        #expect(!body.contains("103"))
        #expect(!body.contains("Anna"))
    }
}

extension PushSettings {
    fileprivate var isAskedForDeviceCode: Bool { PushDirectory(self).apps.contains(where: \.asksForDeviceCode) }
}

@Suite("Payloads for Linphone")
struct LinphonePayloadTests {
    private let caller = #""from-uri":"sip:103@example.net","display-name":"Anna","pn_ttl":28,"customPayload":{}}"#
    private let ids =
        #""call-id":"a84b4c76e66710@pc33.example.net","uuid":"\#(code)","send-time":"2021-06-15 10:41:31""#

    @Test func `a VoIP push carries the call in aps`() throws {
        let request = try #require(PushSettings.sample(.linphone).rendered(push(to: apple, incomingCall())))
        #expect(request.text == #"{"aps":{"sound":"","loc-key":"IC_MSG","loc-args":["Anna"],"# + ids + "}," + caller)
        #expect(request.header("apns-push-type") == "voip")
    }

    @Test func `a background push has no sound`() {
        #expect(
            PushSettings.sample(.linphone, .background).body(push(to: remote, incomingCall()))
                == #"{"aps":{"badge":0,"content-available":1,"loc-key":"IC_MSG","loc-args":["Anna"],"# + ids + "},"
                + caller)
    }

    @Test(arguments: [1, 10])
    func `an alert shows the call, with the rest at the top`(badge: Int) {
        #expect(
            PushSettings.sample(.linphone).body(push(to: remote, incomingCall(), badge: badge))
                == #"{"aps":{"alert":{"loc-key":"IC_MSG","loc-args":["Anna"]},"sound":"default","mutable-content":1,"badge":\#(badge)},"#
                + ids + "," + caller)
    }

    @Test func `Firebase gets Flexisip's strings`() throws {
        let body = try JSONValue(
            Array(try #require(PushSettings.sample(.linphone).body(push(to: android, incomingCall(name: "")))).utf8))
        let data = try #require(body["message"]?["data"])
        #expect(data["uuid"]?.string == code)
        #expect(data["from-uri"]?.string == "sip:103@example.net")
        #expect(data["display-name"]?.string == "")
        #expect(data["call-id"]?.string == "a84b4c76e66710@pc33.example.net")
        #expect(data["sip-from"]?.string == "sip:103@example.net")
        #expect(data["loc-key"]?.string == "IC_MSG")
        #expect(data["loc-args"]?.string == "sip:103@example.net")
        #expect(data["send-time"]?.string == "2021-06-15 10:41:31")
        #expect(data["custom-payload"]?.string == "{}")
    }

    @Test func `missed calls are written out`() throws {
        let list = missedCalls([("103", 1_625_158_716), ("105", 1_625_158_725)])
        let body = try JSONValue(Array(try #require(PushSettings.sample(.linphone).body(push(to: apple, list))).utf8))
        #expect(body["aps"]?["alert"]?["title"]?.string == "Missed calls")
        #expect(body["aps"]?["alert"]?["body"]?.string == "105")
        #expect(body["type"]?.string == "missed_calls")
        #expect(body["calls"]?.array?.count == 2)
    }
}

@Suite("Sizes of payloads, by profile")
struct PayloadSizeTests {
    private static let profiles = PayloadProfile.allCases
    private let long = String(repeating: "\u{1F4DE}\"\u{1}é", count: 2000)

    @Test(arguments: profiles)
    func `a list of any length fits, and keeps the newest`(profile: PayloadProfile) throws {
        for count in [1, 10, 60, 100] {
            for text in ["103", String(long.prefix(40)), long] {
                let list = missedCalls((0..<count).map { (text, 1_625_158_716 + Int64($0)) })
                for type in RemotePushType.allCases {
                    let body = try #require(PushSettings.sample(profile, type).rendered(push(to: apple, list))?.body)
                    #expect(body.count <= 4096)
                    _ = try JSONValue(body)
                }
                let body = try #require(PushSettings.sample(profile).rendered(push(to: android, list))?.body)
                let data = try #require(try JSONValue(body)["message"]?["data"])
                guard case .object(let members) = data else { return #expect(Bool(false)) }
                let size = members.reduce(0) { $0 + $1.key.utf8.count + ($1.value.string?.utf8.count ?? 5000) }
                #expect(size <= 4096)
                #expect(size > 60)
                #expect(String(decoding: body, as: UTF8.self).contains("\(1_625_158_716 + count - 1)"))
            }
        }
    }

    @Test(arguments: profiles)
    func `a caller with long names fits, cut between characters`(profile: PayloadProfile) throws {
        let call = incomingCall(from: "sip:" + long + "@h", name: long)
        for (device, room) in [(apple, 5120), (remote, 4096)] {
            let body = try #require(PushSettings.sample(profile).rendered(push(to: device, call))?.body)
            #expect(body.count <= room)
            #expect(!String(decoding: body, as: UTF8.self).contains("\u{FFFD}"))
            _ = try JSONValue(body)
        }
        let body = try #require(PushSettings.sample(profile).rendered(push(to: android, call))?.body)
        _ = try JSONValue(body)
        #expect(!String(decoding: body, as: UTF8.self).contains("\u{FFFD}"))
    }

    /// Tests names and callers with all byte values.
    @Test(arguments: profiles)
    func `a name with any bytes is read back from the payload`(profile: PayloadProfile) throws {
        for start in stride(from: 0, to: 256, by: 4) {
            let bytes = (0..<40).map { UInt8(truncatingIfNeeded: start &+ $0 &* 7) }
            let call = PushMessage.incomingCall(
                IncomingCall(
                    callRef: CallRef(rawValue: 1), callerURI: ByteString(bytes), displayName: ByteString(bytes),
                    isAnonymous: false, receivedAt: sampleDate, callID: ByteString(bytes)))
            let whole = String(decoding: bytes, as: UTF8.self)
            for device in [apple, remote, android] {
                let body = try #require(PushSettings.sample(profile).rendered(push(to: device, call))?.body)
                let value = try JSONValue(body)
                if profile != .ecss10 || device != android { #expect(value.holds(whole)) }
            }
        }
    }
}

extension JSONValue {
    /// Whether a string in this JSON value equals the text, or contains it as nested JSON.
    fileprivate func holds(_ text: String) -> Bool {
        switch self {
        case .string(let string):
            string == text || (string.hasPrefix("{") && (try? JSONValue(Array(string.utf8)))?.holds(text) == true)
        case .array(let elements): elements.contains { $0.holds(text) }
        case .object(let members): members.contains { $0.value.holds(text) }
        case .null, .bool, .number: false
        }
    }
}
