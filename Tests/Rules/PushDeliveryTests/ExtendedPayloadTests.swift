import Bytes
import JSON
import PushDelivery
import Testing
import Timekeeping

private let apple = token(.apns, "aabb:voip&ccdd:remote", param: "T.com.example.phone.voip&remote")
private let android = token(.fcm)
private let callID = "a84b4c76e66710@pc33.example.net"

@Suite("The payload ecss10.extended, and what ties a push to its INVITE")
struct ExtendedPayloadTests {
    private func data(_ message: PushMessage, _ settings: PushSettings = .sample, now: UnixTime = sampleDate) throws
        -> JSONValue
    {
        let request = try #require(settings.rendered(push(to: android, message), now: now))
        return try #require(try JSONValue(request.body)["message"]?["data"])
    }

    private func call(_ callID: String) -> PushMessage {
        .incomingCall(
            IncomingCall(
                callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:103@example.net"), displayName: .empty,
                isAnonymous: false, receivedAt: sampleDate, callID: ByteString(callID)))
    }

    @Test func `Firebase's default says who calls, over the old interface it is ECSS-10's`() throws {
        let data = try data(incomingCall())
        #expect(data["number"]?.string == "sip:103@example.net")
        #expect(data["display_name"]?.string == "Anna")
        var legacy = PushSettings.sample
        legacy.fcm.bodyFormat = .legacy
        let old = try #require(legacy.body(push(to: android, incomingCall())))
        #expect(old.contains(#""data":{"type":"invite","date":1623753691},"time_to_live""#))
    }

    /// Each attempt to send a push has its own time of sending, and a `ttl` of the rest of the ring time.
    @Test func `each try has its own time`() throws {
        let late = try data(incomingCall(), now: sampleDate + .seconds(9))
        #expect(late["date"]?.string == "1623753691")
        #expect(late["sent"]?.string == "1623753700")
        #expect(late["ttl"]?.string == "19")
        #expect(late["call_id"]?.string == callID)
    }

    @Test(arguments: PayloadProfile.allCases)
    func `a caller who asked for privacy is in no payload`(profile: PayloadProfile) throws {
        let settings = PushSettings.sample(profile)
        let remote = token(.apns, "ccdd", param: "T.com.example.phone.remote")
        for device in [apple, remote, android] {
            let body = try #require(settings.body(push(to: device, incomingCall(isAnonymous: true))))
            #expect(!body.contains("103") && !body.contains("Anna"), "\(body)")
        }
    }

    /// A payload contains a Call-ID as a whole or not at all, because a shortened Call-ID would match no INVITE.
    @Test func `a Call-ID comes whole or not at all`() throws {
        for name in ["ecss10.extended", "10d"] {
            let settings = PushSettings.sample(try #require(PayloadProfile(rawValue: name)))
            for (length, fits) in [(512, true), (513, false), (4000, false)] {
                // JSON writes each backslash of the Call-ID as two bytes.
                let id = String(repeating: "\\", count: length)
                for device in [apple, android] {
                    let request = try #require(settings.rendered(push(to: device, call(id))))
                    #expect(request.body.count <= 4096)
                    let value = try JSONValue(request.body)
                    #expect(value.callID == (fits ? id : nil), "\(name) \(length)")
                }
            }
        }
    }

    @Test func `what is about no call has the time of sending, and is else as in ecss10`() throws {
        let messages = [missedCalls([("103", 1_625_158_716)]), .notification(PushNotification(expiresAt: sampleDate))]
        for message in messages {
            for device in [apple, android] {
                let plain = try #require(PushSettings.sample(.ecss10).body(push(to: device, message)))
                let more = try #require(PushSettings.sample(.ecss10Extended).body(push(to: device, message)))
                _ = try JSONValue(Array(more.utf8))
                let time = device == apple ? #","sent":1623753691"# : #","sent":"1623753691""#
                #expect(more.contains(time) && more.replacing(time, with: "") == plain)
            }
        }
    }

    /// The daemon's test of a push token shows nothing, and Apple gets it in its shortest form.
    @Test func `a test of a token has no time`() throws {
        let test = push(to: apple, .silent)
        #expect(PushSettings.sample(.ecss10Extended).body(test) == PushSettings.sample(.ecss10).body(test))
    }

    /// The length that the provider limits. Firebase counts the keys and values in `data`; other providers count the
    /// whole body.
    private func size(of request: ProviderRequest) throws -> Int {
        guard case .object(let members)? = try JSONValue(request.body)["message"]?["data"] else {
            return request.body.count
        }
        return members.reduce(0) { $0 + $1.key.utf8.count + ($1.value.string?.utf8.count ?? 0) }
    }

    /// The time of sending takes no room from what an application server or a list of missed calls needs.
    @Test(arguments: [PayloadProfile.ecss10Extended, .tenDarts])
    func `the time keeps no long payload from the phone`(profile: PayloadProfile) throws {
        let settings = PushSettings.sample(profile)
        let calls = missedCalls((0..<300).map { ("0123456789", $0) })
        for (device, limit) in [
            (apple, 4096), (android, 4096),
            (token(.webPush, browserURL, param: "\(browserKey).\(browserSecret)"), 3993),
        ] {
            let list = try #require(settings.rendered(push(to: device, calls)))
            #expect(try size(of: list) <= limit && list.text.contains("sent"))
            for length in 3850...3990 {
                var long = PushNotification(expiresAt: sampleDate)
                long.custom = CustomData(
                    try JSONValue(Array(#"{"a":"\#(String(repeating: "x", count: length))"}"#.utf8)))
                let plain = PushSettings.sample(.ecss10).rendered(push(to: device, .notification(long)))
                guard profile == .ecss10Extended, plain != nil else { continue }
                #expect(settings.rendered(push(to: device, .notification(long))) != nil, "\(length)")
            }
        }
    }

    // MARK: Call-IDs that callers choose

    /// JSON writes a control character as six bytes, and web push, HMS and the payload `10d` have it in a string.
    @Test(arguments: [PayloadProfile.ecss10Extended, .tenDarts])
    func `a Call-ID of control characters prevents no push, and is left out first`(profile: PayloadProfile) throws {
        let settings = PushSettings.sample(profile)
        let devices = [apple, android, token(.webPush, browserURL, param: "\(browserKey).\(browserSecret)")]
        for character in ["\u{1}", "\"", "\\", "é"] {
            let id = String(repeating: character, count: 512 / character.utf8.count)
            let name = String(repeating: "\u{2}", count: 512)
            let message = PushMessage.incomingCall(
                IncomingCall(
                    callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:\(name)@example.net"),
                    displayName: ByteString(name), isAnonymous: false, receivedAt: sampleDate, callID: ByteString(id)))
            for device in devices {
                let request = try #require(settings.rendered(push(to: device, message)), "\(character)")
                let value = try JSONValue(request.body)
                #expect(value.callID == nil || value.callID == id)
                #expect(request.text.contains("sent"))
                #expect(!request.body.contains { $0 < 0x20 })
            }
        }
    }
}

private let browserURL = "https://updates.push.services.mozilla.com/wpush/v2/x"

extension JSONValue {
    /// The value of the first member `call_id`, which may be in a string that contains JSON.
    fileprivate var callID: String? {
        switch self {
        case .object(let members):
            if let own = self["call_id"]?.string { return own }
            return members.lazy.compactMap { $0.value.callID }.first
        case .string(let text): return text.hasPrefix("{") ? (try? JSONValue(Array(text.utf8)))?.callID : nil
        case .array, .null, .bool, .number: return nil
        }
    }
}
