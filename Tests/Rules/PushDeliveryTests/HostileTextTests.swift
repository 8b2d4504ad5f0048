import Bytes
import JSON
import PushDelivery
import TestSupport
import Testing
import Timekeeping

/// Hostile texts, which peers may send as a name, a caller or a token.
private let hostile: [[UInt8]] =
    [
        "\"", "\\", "\"},\"to\":\"other", "\r\nX: y", "%0d%0a", "\0", "a\0b", "{{x}}", "${x}", "\u{2028}\u{2029}",
        "../../x", "..",
        "/", "?a=b#c", "😀é", "\u{FEFF}", "<script>", "[]", "anonymous", String(repeating: "\"", count: 4096),
        String(repeating: "😀", count: 1024), String(repeating: "\u{1}", count: 4096),
        String(repeating: "a/", count: 2048),
    ].map { Array($0.utf8) } + [
        [0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98], [UInt8](repeating: 0xfe, count: 4096),
    ]

/// The hostile texts, followed by random bytes.
private let texts: [[UInt8]] = {
    var random = SeededGenerator(seed: 3)
    return hostile + (0..<300).map { random.bytes($0 % 64 + 1) }
}()

private let settings = PushSettings.sample

private func call(_ bytes: [UInt8]) -> PushMessage {
    .incomingCall(
        IncomingCall(
            callRef: CallRef(rawValue: 1), callerURI: ByteString(bytes), displayName: ByteString(bytes),
            isAnonymous: false, receivedAt: sampleDate, callID: ByteString(bytes)))
}

@Suite("Hostile bytes in a name, caller or token (T10)")
struct HostileTextTests {
    /// Whether the payload's field contains the text, or its beginning if the text is long.
    private func holds(_ found: String?, _ bytes: [UInt8]) -> Bool {
        guard let found else { return false }
        let whole = String(decoding: bytes, as: UTF8.self)
        return found == whole
            || (bytes.count > 300 && !found.isEmpty && whole.unicodeScalars.starts(with: found.unicodeScalars))
    }

    @Test func `names and callers read back from Apple's payload`() throws {
        for text in texts {
            let device = token(.apns, "AB", param: "T.com.example.phone")
            let body = try JSONValue(try #require(settings.rendered(push(to: device, call(text)))?.body))
            #expect(holds(body["acme"]?["number"]?.string, text))
            #expect(holds(body["acme"]?["dispaly_name"]?.string, text))
            let list = PushMessage.missedCalls([
                MissedCall(remoteURI: ByteString(text), date: sampleDate, callRef: CallRef(rawValue: 1))
            ])
            let listBody = try JSONValue(try #require(settings.rendered(push(to: device, list))?.body))
            #expect(holds(listBody["acme"]?["calls"]?.array?.first?["remote_uri"]?.string, text))
        }
    }

    @Test func `tokens and callers read back from Firebase's bodies`() throws {
        for text in texts {
            let device = PushToken(provider: .fcm, param: .empty, prid: ByteString(text))
            let list = PushMessage.missedCalls([
                MissedCall(remoteURI: ByteString(text), date: sampleDate, callRef: CallRef(rawValue: 1))
            ])
            let whole = String(decoding: text, as: UTF8.self)
            let v1 = try JSONValue(try #require(settings.rendered(push(to: device, list))?.body))
            #expect(v1["message"]?["token"]?.string == whole)
            let calls = try JSONValue(Array(try #require(v1["message"]?["data"]?["calls"]?.string).utf8))
            #expect(holds(calls.array?.first?["remote_uri"]?.string, text))
            let legacy = try JSONValue(
                try #require(PushSettings.sample(.ecss10, .alert, .legacy).rendered(push(to: device, list))?.body))
            #expect(legacy["to"]?.string == whole)
        }
    }

    @Test func `an Apple token stays one segment of the path`() throws {
        var rendered = 0
        for text in texts {
            let device = PushToken(provider: .apns, param: .empty, prid: ByteString(text))
            guard let path = settings.rendered(push(to: device, call([0x41])))?.path else { continue }
            rendered += 1
            #expect(path.hasPrefix("/3/device/"))
            let segment = path.dropFirst("/3/device/".count)
            #expect(!segment.isEmpty)
            let isSafe = segment.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"),
                    UInt8(ascii: "%"):
                    true
                default: false
                }
            }
            #expect(isSafe)
            #expect(ByteString(String(segment)).percentDecoded().array == text)
        }
        // The provider's rules refuse at most half of the hostile texts: texts that name an unknown service, and texts
        // of dots.
        #expect(rendered > texts.count / 2)
    }

    @Test func `tokens, callers and Call-IDs read back from the mediator's bodies`() throws {
        for text in texts {
            let device = PushToken(
                provider: .acrobits, param: ByteString(Array("a:".utf8) + text), prid: ByteString(text))
            guard let request = settings.rendered(push(to: device, call(text))) else {
                // A push to a hostile token fails only if the token has a colon or an ampersand, which have a special
                // meaning.
                #expect(text.contains(UInt8(ascii: ":")) || text.contains(UInt8(ascii: "&")))
                continue
            }
            let whole = String(decoding: text, as: UTF8.self)
            let body = try JSONValue(request.body)
            #expect(body["DeviceToken"]?.string == whole)
            #expect(body["Selector"]?.string == whole)
            #expect(holds(body["UserDisplayName"]?.string, text))
            #expect(holds(body["Id"]?.string, text))
            let list = PushMessage.missedCalls([
                MissedCall(remoteURI: ByteString(text), date: sampleDate, callRef: CallRef(rawValue: 1))
            ])
            let listBody = try JSONValue(try #require(settings.rendered(push(to: device, list))?.body))
            let message = try #require(listBody["Message"]?.string)
            #expect(message.unicodeScalars.starts(with: "Missed calls: ".unicodeScalars))
            #expect(holds(String(message.unicodeScalars.dropFirst("Missed calls: ".count)), text))
        }
    }

    @Test func `callers are read back from the payload of a web push, and are in no header`() throws {
        let device = token(.webPush, "https://fcm.googleapis.com/x", param: "\(browserKey).\(browserSecret)")
        let settings = PushSettings.sample(.linphone)
        for text in texts {
            let request = try #require(settings.rendered(push(to: device, call(text))))
            let body = try JSONValue(request.body)
            #expect(holds(body["display-name"]?.string, text))
            #expect(holds(body["from-uri"]?.string, text))
            #expect(holds(body["call-id"]?.string, text))
            #expect(request.headers.allSatisfy { $0.value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f } })
            // None of the hostile texts is a valid Web Push key, so a push with such a key cannot be sent.
            let keyed = PushToken(provider: .webPush, param: ByteString(text + [0x2e] + text), prid: device.prid)
            #expect(settings.rendered(push(to: keyed, call(text)))?.protection == ProviderRequest.Protection.none)
        }
    }

    @Test func `all of them keep to their place in an operator's template`() throws {
        let settings = try gatewaySettings(
            """
            url: "https://h/a/{{token}}/b?name={{display-name}}&from={{caller}}"
            headers: ["x-name: <{{display-name}}>", "x-id: <{{call-id}}>"]
            body: '{"token":"{{token}}","name":"{{display-name}}","both":"<{{caller}}|{{token}}>","end":1}'
            """)
        for text in texts {
            let device = PushToken(provider: .http, param: ByteString("gateway"), prid: ByteString(text))
            guard let request = settings.rendered(push(to: device, call(text))) else {
                #expect(text == [0x2e] || text == [0x2e, 0x2e])
                continue
            }
            let whole = String(decoding: text, as: UTF8.self)
            let body = try JSONValue(request.body)
            #expect(body["token"]?.string == whole)
            #expect(holds(body["name"]?.string, text))
            let both = try #require(body["both"]?.string)
            #expect(
                both.utf8.first == UInt8(ascii: "<")
                    && both.unicodeScalars.reversed().starts(with: ("|" + whole + ">").unicodeScalars.reversed()))
            #expect(body["end"]?.integer == 1)
            guard case .object(let members) = body else { return #expect(Bool(false)) }
            #expect(members.count == 4)

            #expect(request.url.hasPrefix("https://h/a/"))
            #expect(request.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "#") })
            let sides = request.url.dropFirst("https://h/a/".count).split(
                separator: "/", omittingEmptySubsequences: false)
            try #require(sides.count == 2)
            #expect(ByteString(String(sides[0])).percentDecoded().array == text)
            let query = sides[1].dropFirst("b?".count).split(separator: "&")
            try #require(query.count == 2)
            let name = ByteString(String(query[0].dropFirst("name=".count))).percentDecoded().array
            #expect(text.starts(with: name) && (name.count == text.count || name.count > 1000))

            for name in ["x-name", "x-id"] {
                let value = try #require(request.header(name))
                #expect(value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f })
                #expect(value.utf8.first == UInt8(ascii: "<") && value.utf8.last == UInt8(ascii: ">"))
            }
        }
    }

    @Test func `a notification's texts and data read back from every profile, at every provider`() throws {
        for profile in PayloadProfile.allCases {
            let settings = PushSettings.sample(profile)
            for text in texts {
                var notification = PushNotification(expiresAt: sampleDate)
                notification.title = ByteString(text)
                notification.text = ByteString(text)
                var json = Array(#"{"a\"b":"#.utf8)
                json.append(jsonString: text.span, atMost: 64)
                let custom = try JSONValue(json + Array("}".utf8))
                notification.custom = CustomData(custom)
                let message = PushMessage.notification(notification)
                let apple = try JSONValue(
                    try #require(
                        settings.rendered(push(to: token(.apns, "AB", param: "T.com.example.phone"), message))?.body))
                #expect(holds(apple["aps"]?["alert"]?["title"]?.string, text))
                #expect(holds(apple["aps"]?["alert"]?["body"]?.string, text))
                let data =
                    switch profile {
                    case .ecss10, .ecss10Extended: apple["acme"]?["ctm"]
                    case .tenDarts: apple["ctm"]
                    case .linphone: apple["customPayload"]
                    }
                #expect(data == custom)
                let google = try JSONValue(
                    try #require(settings.rendered(push(to: token(.fcm), message))?.body))["message"]?["data"]
                #expect(holds(google?["title"]?.string, text))
                #expect(holds(google?["message"]?.string, text))
                let name = profile == .linphone ? "custom-payload" : "ctm"
                #expect(try JSONValue(Array(try #require(google?[name]?.string).utf8)) == custom)
                let mediator = try JSONValue(
                    try #require(settings.rendered(push(to: token(.acrobits, "T", param: "a"), message))?.body))
                #expect(mediator["Message"]?.string?.isEmpty == text.isEmpty)
            }
        }
    }

    @Test func `the only part of the device in a header is a bundle of safe letters`() throws {
        for text in texts {
            let device = PushToken(provider: .apns, param: ByteString(Array("T.".utf8) + text), prid: ByteString("AB"))
            var settings = settings
            settings.apns.topics = []
            guard let request = settings.rendered(push(to: device, call([0x41]))) else { continue }
            let topic = try #require(request.header("apns-topic"))
            #expect(topic.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f })
        }
    }
}
