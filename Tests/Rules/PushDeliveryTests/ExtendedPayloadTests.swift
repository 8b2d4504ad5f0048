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

    @Test func `what is about no call is the same as in ecss10`() throws {
        let messages = [missedCalls([("103", 1_625_158_716)]), .notification(PushNotification(expiresAt: sampleDate))]
        for message in messages {
            for device in [apple, android] {
                let plain = PushSettings.sample(.ecss10).body(push(to: device, message))
                #expect(plain != nil)
                #expect(PushSettings.sample(.ecss10Extended).body(push(to: device, message)) == plain)
            }
        }
    }
}

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
