import Bytes
import JSON
import PushDelivery
import Testing
import Timekeeping

private let code = "12345678-9abc-4ef0-bedc-ba9876543210"
private let apple = token(.apns, "aabb:voip&ccdd:remote", param: "T.com.example.phone.voip&remote")
private let android = token(.fcm)
private let browser = token(.webPush, "https://fcm.googleapis.com/x", param: "\(browserKey).\(browserSecret)")
private let mediated = token(.acrobits, "CALLS:calls&OTHER:other", param: "app.voip&app:SELECTOR")

private func legacy(_ profile: PayloadProfile) -> PushSettings { .sample(profile, .alert, .legacy) }

/// Makes a push for a notification with a lifetime of a day, and no other values.
private func notification(_ change: (inout PushNotification) -> Void = { _ in }) -> PushMessage {
    var notification = PushNotification(expiresAt: sampleDate + .seconds(86_400))
    change(&notification)
    return .notification(notification)
}

private func custom(_ text: String) throws -> CustomData {
    try #require(CustomData(try JSONValue(Array(text.utf8))))
}

/// Makes a push for a notification with all values, as in the samples of the specification.
private func sample(_ text: String = "...", _ change: (inout PushNotification) -> Void = { _ in }) throws -> PushMessage
{
    let custom = try custom(#"{"field":"value"}"#)
    return notification {
        $0.title = ByteString(text)
        $0.text = ByteString(text)
        $0.destinationType = ByteString(text)
        $0.destinationContent = ByteString(text)
        $0.imageURL = ByteString(text)
        $0.wantsConfirmation = true
        $0.custom = custom
        change(&$0)
    }
}

@Suite("Notifications in 10darts' words")
struct TenDartsNotificationTests {
    @Test func `Android gets the sample, in strings where Firebase wants them`() throws {
        let data =
            #"{"id":"\#(code)","message":"...","title":"...","badge":1,"dst":"...","dsc":"...","img":"...","cfm":1,"sil":0,"org":"10d","ctm":{"field":"value"}}"#
        let push = push(to: android, try sample(), badge: 1)
        #expect(
            legacy(.tenDarts).body(push)
                == #"{"to":"device_token","priority":10,"data":\#(data),"time_to_live":86400}"#)
        #expect(
            PushSettings.sample(.tenDarts).body(push)
                == #"{"message":{"token":"device_token","android":{"priority":"HIGH","ttl":"86400s"},"data":{"#
                + #""id":"\#(code)","message":"...","title":"...","badge":"1","dst":"...","dsc":"...","img":"...","#
                + #""cfm":"1","sil":"0","org":"10d","ctm":"{\"field\":\"value\"}"}}}"#)
    }

    @Test func `iOS gets the sample, byte for byte`() throws {
        #expect(
            PushSettings.sample(.tenDarts).body(push(to: apple, try sample(), badge: 1))
                == #"{"aps":{"alert":{"title":"...","body":"..."},"sound":"default","badge":1},"id":"\#(code)","title":"...","dst":"...","dsc":"...","img":"...","cfm":1,"sil":0,"org":"10d","ctm":{"field":"value"}}"#
        )
    }

    @Test func `iOS in silence gets exactly the sample for it`() throws {
        let silent = try sample { $0.isSilent = true }
        #expect(
            PushSettings.sample(.tenDarts).body(push(to: apple, silent, badge: 1))
                == #"{"aps":{"content-available":1},"id":"\#(code)","dst":"...","dsc":"...","cfm":1,"sil":1,"org":"10d"}"#
        )
    }

    @Test func `a silent push for Android has the same data, marked as silent, with normal priority`() throws {
        let silent = try sample { $0.isSilent = true }
        let text = try #require(PushSettings.sample(.tenDarts).body(push(to: android, silent, badge: 1)))
        #expect(text.hasPrefix(#"{"message":{"token":"device_token","android":{"priority":"NORMAL","ttl":"86400s"},"#))
        #expect(text.contains(#""cfm":"1","sil":"1","org":"10d","ctm":"{\"field\":\"value\"}"}}}"#))
        let old = try #require(legacy(.tenDarts).body(push(to: android, silent, badge: 1)))
        #expect(old.hasPrefix(#"{"to":"device_token","priority":5,"data":{"#))
        #expect(!text.contains(#""notification""#))
    }

    @Test func `missing values are left out, except for the destination`() {
        let push = push(to: apple, notification { $0.text = ByteString("hi") }, badge: 3)
        #expect(
            PushSettings.sample(.tenDarts).body(push)
                == #"{"aps":{"alert":{"title":"","body":"hi"},"sound":"default","badge":3},"#
                + #""id":"\#(code)","title":"","dst":"","dsc":"","cfm":0,"sil":0,"org":"10d"}"#)
    }
}

@Suite("Notifications in other words")
struct OtherNotificationTests {
    @Test func `ECSS-10`() throws {
        let all = try sample("x")
        #expect(
            PushSettings.sample(.ecss10).body(push(to: apple, all, badge: 1))
                == #"{"aps":{"alert":{"title":"x","body":"x"},"sound":"default","mutable-content":1,"badge":"1"},"#
                + #""acme":{"badge":"1","type":"message","date":1623753691,"id":"\#(code)","dst":"x","dsc":"x","#
                + #""img":"x","cfm":1,"ctm":{"field":"value"}}}"#)
        #expect(
            legacy(.ecss10).body(push(to: android, all, badge: 1))
                == #"{"to":"device_token","priority":10,"data":{"type":"message","date":1623753691,"id":"\#(code)","#
                + #""title":"x","message":"x","badge":1,"dst":"x","dsc":"x","img":"x","cfm":1,"#
                + #""ctm":{"field":"value"}},"time_to_live":86400}"#)
        let silent = notification { $0.isSilent = true }
        #expect(
            PushSettings.sample(.ecss10).body(push(to: apple, silent))
                == #"{"aps":{"content-available":1},"acme":{"type":"silent","date":1623753691,"id":"\#(code)","cfm":0}}"#
        )
        #expect(
            PushSettings.sample(.ecss10).body(push(to: android, silent))
                == #"{"message":{"token":"device_token","android":{"priority":"NORMAL","ttl":"86400s"},"data":{"#
                + #""type":"silent","date":"1623753691","id":"\#(code)","cfm":"0"}}}"#)
    }

    @Test func `Linphone`() throws {
        let all = try sample("x")
        #expect(
            PushSettings.sample(.linphone).body(push(to: apple, all, badge: 1))
                == #"{"aps":{"alert":{"title":"x","body":"x"},"sound":"default","mutable-content":1,"badge":1},"#
                + #""type":"message","uuid":"\#(code)","send-time":"2021-06-15 10:41:31","pn_ttl":86400,"dst":"x","#
                + #""dsc":"x","img":"x","cfm":1,"customPayload":{"field":"value"}}"#)
        #expect(
            legacy(.linphone).body(push(to: android, all, badge: 1))
                == #"{"to":"device_token","priority":10,"data":{"uuid":"\#(code)","send-time":"2021-06-15 10:41:31","#
                + #""custom-payload":{"field":"value"},"type":"message","title":"x","message":"x","dst":"x","dsc":"x","#
                + #""img":"x","cfm":1},"time_to_live":86400}"#)
        let silent = notification { $0.isSilent = true }
        #expect(
            PushSettings.sample(.linphone).body(push(to: apple, silent))
                == #"{"aps":{"content-available":1},"type":"silent","uuid":"\#(code)","#
                + #""send-time":"2021-06-15 10:41:31","pn_ttl":86400,"customPayload":{}}"#)
    }

    @Test func `Linphone gets the id of the message, as from Flexisip`() throws {
        let message = notification {
            $0.title = ByteString("Alice")
            $0.text = ByteString("hi")
            $0.callID = ByteString("m1@x")
            var sender = MediatedMessage(.text)
            sender.userName = ByteString("sip:alice@x")
            sender.userDisplayName = ByteString("Alice")
            $0.mediated = sender
        }
        let members =
            #""call-id":"m1@x","from-uri":"sip:alice@x","display-name":"Alice","loc-key":"IM_MSG","loc-args":"Alice""#
        for token in [apple, android] {
            let settings = token.provider == .fcm ? legacy(.linphone) : PushSettings.sample(.linphone)
            #expect(settings.body(push(to: token, message))?.contains(members) == true)
        }
    }

    @Test func `the mediator, whose format has no title and no silent push`() throws {
        let text = notification {
            $0.title = ByteString("News")
            $0.text = ByteString("hi")
        }
        #expect(
            PushSettings.sample.body(push(to: mediated, text, badge: 2))
                == #"{"verb":"NotifyGenericTextMessage","AppId":"app","DeviceToken":"OTHER","Selector":"SELECTOR","#
                + #""Message":"News: hi","Badge":2}"#)
        let silent = notification { $0.isSilent = true }
        #expect(PushSettings.sample.render(push(to: mediated, silent)) == .impossible(.noSuitableToken))
    }

    @Test func `the mediator's own members`() throws {
        var message = MediatedMessage(.text)
        message.userName = ByteString("103")
        message.userDisplayName = ByteString("Anna")
        message.contentType = ByteString("text/plain")
        message.id = ByteString("i1")
        message.threadID = ByteString("t1")
        let text = notification { [message] in
            $0.title = ByteString("Anna")
            $0.text = ByteString("hi")
            $0.sound = ByteString("ding")
            $0.mediated = message
        }
        #expect(
            PushSettings.sample.body(push(to: mediated, text, badge: 2))
                == #"{"verb":"NotifyTextMessage","AppId":"app","DeviceToken":"OTHER","Selector":"SELECTOR","#
                + #""Message":"hi","Badge":2,"Sound":"ding","UserName":"103","UserDisplayName":"Anna","#
                + #""ContentType":"text/plain","Id":"i1","ThreadId":"t1"}"#)
        // The push token in this test names no account whose messages the app could fetch.
        let nameless = token(.acrobits, "CALLS:calls&OTHER:other", param: "app.voip&app")
        #expect(PushSettings.sample.render(push(to: nameless, text)) == .impossible(.noSuitableToken))
        let calls = token(.acrobits, "CALLS:calls", param: "app:SELECTOR")
        #expect(PushSettings.sample.render(push(to: calls, text)) == .impossible(.noSuitableToken))
    }

    @Test func `a server of one's own, if its template can tell it from a call`() throws {
        let all = try sample("x") { $0.title = ByteString("a\"b") }
        let settings = try gatewaySettings(
            """
            url: "https://h/{{type}}/{{token}}"
            body: '{"title":"{{title}}","text":"<{{message}}>","at":"{{destination-type}}/{{destination-code}}","img":"{{image}}","ctm":"{{custom}}","ttl":"{{ttl}}","from":"{{caller}}"}'
            """)
        let device = token(.http, "T", param: "gateway")
        let request = try #require(settings.rendered(push(to: device, all)))
        #expect(request.url == "https://h/message/T")
        #expect(
            request.text
                == #"{"title":"a\"b","text":"<x>","at":"x/x","img":"x","ctm":{"field":"value"},"ttl":86400,"from":""}"#)
        // In a push for a call, the fields that only notifications have are empty.
        let call = try #require(settings.rendered(push(to: device, incomingCall())))
        #expect(call.text.contains(#""title":"","text":"<>","at":"/","img":"","ctm":{}"#))
        let blind = try gatewaySettings(
            """
            url: "https://h/wake/{{token}}"
            body: '{"from":"{{caller}}"}'
            """)
        #expect(blind.render(push(to: device, all)) == .impossible(.noSuitableToken))
        #expect(blind.rendered(push(to: device, incomingCall())) != nil)
    }

    @Test func `a browser, with keys, or in silence without`() throws {
        let text = notification { $0.text = ByteString("hi") }
        let request = try #require(PushSettings.sample(.tenDarts).rendered(push(to: browser, text)))
        #expect(request.header("ttl") == "86400")
        #expect(request.header("urgency") == "normal")
        #expect(request.header("topic") == code.filter { $0 != "-" })
        #expect(try JSONValue(request.body)["message"]?.string == "hi")
        let keyless = token(.webPush, "https://fcm.googleapis.com/x")
        #expect(PushSettings.sample(.tenDarts).render(push(to: keyless, text)) == .impossible(.noSuitableToken))
        let silent = notification { $0.isSilent = true }
        let wakeUp = try #require(PushSettings.sample(.tenDarts).rendered(push(to: keyless, silent)))
        #expect(wakeUp.body.isEmpty)
        #expect(wakeUp.header("urgency") == "low")
    }
}

@Suite("Notifications at Apple")
struct AppleNotificationTests {
    private func headers(_ message: PushMessage, now: UnixTime = sampleDate) throws -> ProviderRequest {
        try #require(PushSettings.sample(.tenDarts).rendered(push(to: apple, message), now: now))
    }

    @Test func `a message is an alert, a silent push has priority 5, and neither uses the token for calls`()
        throws
    {
        let message = try headers(notification { $0.text = ByteString("hi") })
        #expect(message.path == "/3/device/ccdd")
        #expect(message.header("apns-topic") == "com.example.phone")
        #expect(message.header("apns-push-type") == "alert")
        #expect(message.header("apns-priority") == "10")
        #expect(message.header("apns-expiration") == "\(sampleDate.seconds + 86_400)")
        #expect(message.header("apns-id") == code)
        #expect(message.header("apns-collapse-id") == code)
        let silent = try headers(notification { $0.isSilent = true })
        #expect(silent.path == "/3/device/ccdd")
        #expect(silent.header("apns-push-type") == "background")
        #expect(silent.header("apns-priority") == "5")
    }

    @Test func `the setting for calls to remote tokens changes nothing`() throws {
        var settings = PushSettings.sample(.tenDarts)
        settings.apns.remotePushType = .background
        let request = try #require(settings.rendered(push(to: apple, notification { $0.text = ByteString("hi") })))
        #expect(request.header("apns-push-type") == "alert")
    }

    @Test func `a token for calls alone gets nothing`() {
        let device = token(.apns, "aabb", param: "T.com.example.phone.voip")
        for message in [notification { $0.text = ByteString("hi") }, notification { $0.isSilent = true }] {
            #expect(PushSettings.sample(.tenDarts).render(push(to: device, message)) == .impossible(.noSuitableToken))
        }
    }

    @Test func `an expired notification is delivered now or never`() throws {
        let late = try headers(notification { $0.text = ByteString("hi") }, now: sampleDate + .seconds(86_400))
        #expect(late.header("apns-expiration") == "0")
    }
}

@Suite("Notifications and payload limits")
struct NotificationSizeTests {
    private static let profiles: [PayloadProfile] = PayloadProfile.allCases

    /// A notification whose custom object makes the payload as long as the limit plus `excess`. The function `size`
    /// computes the length of the payload. The length does not include the time of sending in `ecss10.extended`, which
    /// a payload without room for it loses, except if `withTime` is true.
    private func filled(
        _ profile: PayloadProfile, _ device: PushToken, limit: Int, excess: Int, withTime: Bool = false,
        size: (ProviderRequest) throws -> Int
    ) throws -> PushRendering {
        func message(_ length: Int) throws -> PushMessage {
            let custom = try custom(#"{"a":"\#(String(repeating: "x", count: length))"}"#)
            return notification { $0.custom = custom }
        }
        let measured = profile == .ecss10Extended && !withTime ? PayloadProfile.ecss10 : profile
        let base = try size(
            try #require(PushSettings.sample(measured).rendered(push(to: device, try message(1000)))))
        return PushSettings.sample(profile).render(push(to: device, try message(1000 + limit - base + excess)))
    }

    /// A payload that has just enough room for the time of sending has the time. A longer payload is sent without.
    private func checkTime(_ device: PushToken, limit: Int, size: (ProviderRequest) throws -> Int) throws {
        for (excess, hasTime) in [(-1, true), (0, true), (1, false)] {
            let rendering = try filled(
                .ecss10Extended, device, limit: limit, excess: excess, withTime: true, size: size)
            guard case .request(let request) = rendering else { return #expect(Bool(false), "\(rendering)") }
            #expect(request.text.contains(#""sent":"#) == hasTime)
            #expect(try size(request) <= limit)
            if hasTime { #expect(try size(request) == limit + excess) }
        }
    }

    private func isRequest(_ rendering: PushRendering) -> Bool {
        if case .request = rendering { true } else { false }
    }

    @Test(arguments: profiles) func `Apple takes 4096 bytes`(profile: PayloadProfile) throws {
        for (excess, fits) in [(-1, true), (0, true), (1, false)] {
            let rendering = try filled(profile, apple, limit: 4096, excess: excess) {
                $0.body.count
            }
            #expect(isRequest(rendering) == fits)
            if case .request(let request) = rendering { #expect(request.body.count == 4096 + excess) }
        }
        if profile == .ecss10Extended { try checkTime(apple, limit: 4096) { $0.body.count } }
    }

    @Test(arguments: profiles) func `Firebase takes 4096 bytes of keys and values`(profile: PayloadProfile) throws {
        func size(_ request: ProviderRequest) throws -> Int {
            guard case .object(let members)? = try JSONValue(request.body)["message"]?["data"] else { return 0 }
            return members.reduce(0) { $0 + $1.key.utf8.count + ($1.value.string?.utf8.count ?? 0) }
        }
        for (excess, fits) in [(-1, true), (0, true), (1, false)] {
            let rendering = try filled(profile, android, limit: 4096, excess: excess, size: size)
            #expect(isRequest(rendering) == fits)
            if case .request(let request) = rendering { #expect(try size(request) == 4096 + excess) }
        }
        if profile == .ecss10Extended { try checkTime(android, limit: 4096, size: size) }
    }

    @Test(arguments: profiles) func `a browser's service takes 3993 bytes`(profile: PayloadProfile) throws {
        for (excess, fits) in [(-1, true), (0, true), (1, false)] {
            let rendering = try filled(profile, browser, limit: 3993, excess: excess) {
                $0.body.count
            }
            #expect(isRequest(rendering) == fits)
            if case .request(let request) = rendering { #expect(request.body.count == 3993 + excess) }
        }
        if profile == .ecss10Extended { try checkTime(browser, limit: 3993) { $0.body.count } }
    }

    @Test(arguments: profiles) func `long texts are cut between characters, the title leaves room for the text`(
        profile: PayloadProfile
    ) throws {
        for character in ["x", "é", "€", "😀", "\"", "\u{1}"] {
            let long = ByteString(String(repeating: character, count: 8000))
            let message = notification {
                $0.title = long
                $0.text = long
            }
            let request = try #require(PushSettings.sample(profile).rendered(push(to: apple, message)))
            #expect((4096 - 5...4096).contains(request.body.count))
            let alert = try #require(try JSONValue(request.body)["aps"]?["alert"])
            for text in [alert["title"]?.string, alert["body"]?.string] {
                let text = try #require(text)
                #expect(!text.isEmpty && text.unicodeScalars.allSatisfy { $0 == character.unicodeScalars.first })
            }
            #expect(try #require(PushSettings.sample(profile).rendered(push(to: android, message))).body.count > 3000)
            #expect(try #require(PushSettings.sample(profile).rendered(push(to: browser, message))).body.count <= 3993)
        }
    }

    @Test func `custom data makes room for itself at the texts' cost`() throws {
        let data = try custom(#"{"a":"\#(String(repeating: "x", count: 3500))"}"#)
        let message = notification {
            $0.title = ByteString("title")
            $0.text = ByteString(String(repeating: "y", count: 1000))
            $0.custom = data
        }
        let body = try JSONValue(try #require(PushSettings.sample(.tenDarts).rendered(push(to: apple, message))).body)
        #expect(body["ctm"]?["a"]?.string?.count == 3500)
        #expect(body["title"]?.string == "title")
        #expect((1..<1000).contains(body["aps"]?["alert"]?["body"]?.string?.count ?? 0))
    }

    @Test(arguments: [(4096, true), (4097, false)]) func `custom data is an object of so many bytes`(
        length: Int, isTaken: Bool
    ) throws {
        let value = try JSONValue(Array(#"{ "a" : "\#(String(repeating: "x", count: length - 8))" }"#.utf8))
        #expect((CustomData(value) != nil) == isTaken)
        #expect(CustomData(.array([])) == nil)
    }

    @Test func `the forecast for a push is its result`() throws {
        let directory = PushDirectory(PushSettings.sample(.tenDarts))
        func verdict(_ device: PushToken, _ message: PushMessage) -> PushVerdict {
            directory.verdict(on: push(to: device, message), now: sampleDate)
        }
        let text = notification { $0.text = ByteString("hi") }
        let apple = token(.apns, wellFormed.string, param: "T.com.example.phone")
        #expect(verdict(apple, text) == .possible)
        #expect(verdict(token(.apns, wellFormed.string, param: "T.com.example.phone.voip"), text) == .notCarried)
        #expect(verdict(token(.apns, "aabb", param: "T.com.example.phone"), text) == .notCarried)
        #expect(verdict(token(.http, "T", param: "gateway"), text) == .notCarried)
        let big = notification { $0.destinationContent = ByteString(String(repeating: "\u{1}", count: 1000)) }
        guard case .refused(let words) = verdict(apple, big) else { return #expect(Bool(false)) }
        #expect(words.hasPrefix("apns: a payload of "))
    }
}

/// A class that wraps the limit of notifications, so that `#expect` can call its methods.
private final class Gate {
    private var gate: NotificationGate

    init(requests: Int) {
        var limits = ProviderLimits()
        limits.requests = requests
        gate = NotificationGate(limits)
    }

    var waiting: Int { gate.waiting }
    var inside: Int { gate.inside }

    func admits(_ number: UInt64) -> Bool { gate.arrived(PushID(rawValue: number)) }

    func next() -> UInt64? { gate.next()?.rawValue }

    func left() { gate.left() }
}

@Suite("The gate before a queue")
struct NotificationGateTests {
    @Test(arguments: [(1, 1), (3, 1), (4, 1), (8, 2), (1000, 250)]) func `lets in a quarter of the places`(
        requests: Int, limit: Int
    ) {
        let gate = Gate(requests: requests)
        let admitted = (1...UInt64(limit + 1)).map { gate.admits($0) }
        #expect(admitted.count(where: \.self) == limit)
        #expect(gate.waiting == 1)
    }

    @Test func `waiting notifications keep their order`() {
        let gate = Gate(requests: 4)
        for number in 1...3000 as ClosedRange<UInt64> { _ = gate.admits(number) }
        for number in 2...3000 as ClosedRange<UInt64> {
            #expect(gate.next() == nil)
            gate.left()
            if number == 2 { #expect(!gate.admits(9999)) }
            #expect(gate.next() == number)
        }
        gate.left()
        #expect(gate.next() == 9999)
        gate.left()
        #expect(gate.next() == nil)
        #expect(gate.inside == 0)
        #expect(gate.admits(1))
    }
}
