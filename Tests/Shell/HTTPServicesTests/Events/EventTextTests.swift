import Addressing
import Bytes
import JSON
import Persistence
@testable import ProxyCore
import PushDelivery
import Registration
import ServiceEvents
import Settings
import Testing
import TestSupport
import Timekeeping

@testable import HTTPServices

@Suite("Events as JSON")
struct EventTextTests {
    private static let date = UnixTime(milliseconds: 1_790_000_000_042)
    private static let aor = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))
    private static let text = EventText(source: "/sippushd/sip1")

    private static func json(_ event: ServiceEvent) throws -> JSONValue {
        try JSONValue(text.json(event, id: 1_790_000_000_042_000))
    }

    private static func call(_ callID: String = "a@b", caller: String = "700") -> EventCall {
        EventCall(
            ref: CallRef(rawValue: 7), callID: ByteString(callID), aor: aor, caller: ByteString(caller), date: date)
    }

    @Test func `an event is a CloudEvent`() throws {
        let event = try Self.json(
            .callHeld(
                Self.call(),
                EventWait(devices: [DeviceID(rawValue: 9)], until: Self.date + .seconds(30), isAgain: false)))
        #expect(event["specversion"]?.string == "1.0" && event["id"]?.string == "1790000000042000")
        #expect(event["source"]?.string == "/sippushd/sip1" && event["type"]?.string == "sippushd.call.held")
        #expect(event["time"]?.string == "2026-09-21T14:13:20.042Z" && event["subject"]?.string == "bob@example.net")
        #expect(event["datacontenttype"]?.string == "application/json")
        let data = try #require(event["data"])
        #expect(data["callId"]?.string == "a@b" && data["caller"]?.string == "700" && data["again"]?.bool == false)
        #expect(data["until"]?.string == "2026-09-21T14:13:50.042Z")
        let device = try #require(data["devices"]?.array?.first)
        #expect(device["id"]?.string == "9" && device["name"]?.string == DeviceID(rawValue: 9).name)
    }

    @Test func `texts of strangers stay short, and break nothing`() throws {
        let long = String(repeating: "\u{301}", count: 5000)
        let event = try Self.json(
            .callWoken(Self.call("x\"\n\u{2028}" + long, caller: "</script>\\" + long), device: .nobody, after: .zero))
        let data = try #require(event["data"])
        #expect(data["callId"]?.string?.unicodeScalars.count == 256)
        let caller = try #require(data["caller"]?.string)
        // A mark joins the character before it, so the scalars are compared.
        #expect(caller.unicodeScalars.starts(with: "</script>\\\u{301}".unicodeScalars))
        #expect(caller.unicodeScalars.count == 256)
        let bytes = Self.text.json(.callWoken(Self.call("a\nb"), device: .nobody, after: .zero), id: 1)
        #expect(!bytes.contains(UInt8(ascii: "\n")))
    }

    @Test(arguments: [
        (DeviceRemoval.signedOut, "signed-out"), (.replaced(by: DeviceID(rawValue: 4)), "replaced"),
        (.ordered, "ordered"), (.expired, "expired"), (.tokenDead, "token-dead"), (.providerOff, "provider-off"),
    ])
    func `a removed device has its reason`(removal: DeviceRemoval, reason: String) throws {
        let event = try Self.json(.deviceRemoved(DeviceID(rawValue: 3), of: Self.aor, removal, at: Self.date))
        #expect(event["type"]?.string == "sippushd.device.removed")
        #expect(event["data"]?["reason"]?.string == reason)
        #expect((event["data"]?["replacedBy"] != nil) == (reason == "replaced"))
    }

    @Test func `lost events are told with their numbers`() throws {
        let event = try JSONValue(Self.text.json(EventLoss(.full, count: 3, range: 5...9), id: 10, at: Self.date))
        #expect(event["type"]?.string == "sippushd.events.dropped" && event["subject"] == nil)
        #expect(event["data"]?["count"]?.integer == 3 && event["data"]?["reason"]?.string == "full")
        #expect(event["data"]?["firstId"]?.string == "5" && event["data"]?["lastId"]?.string == "9")
    }

    @Test func `events of a user and of an app have owners, and domains differ`() {
        let one = EventOwner(of: .deviceRegistered(.nobody, of: Self.aor, isPush: true, at: Self.date))
        let other = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org"))
        let two = EventOwner(of: .deviceRegistered(.nobody, of: other, isPush: true, at: Self.date))
        let app = EventOwner(of: .push(.breakerClosed(app: "fcm"), at: Self.date))
        #expect(one.user != two.user && one.domain != two.domain)
        #expect(app.domain == 0 && app != .daemon)
        #expect(one == EventOwner(of: .callWoken(Self.call(), device: .nobody, after: .zero)))
    }
}

@Suite("Settings of events")
struct EventSettingsTests {
    private static func complaints(_ change: (inout EventSettings) -> Void) -> [String] {
        var settings = EventSettings()
        settings.url = "https://app.example.net/events"
        settings.secretFiles = ["/etc/a"]
        change(&settings)
        return settings.complaints().map { $0.key ?? "" }
    }

    @Test func `a receiver needs one or two secrets, and https unless plain http is allowed`() throws {
        #expect(Self.complaints { _ in }.isEmpty)
        #expect(Self.complaints { $0.secretFiles = [] } == ["secret-files"])
        #expect(Self.complaints { $0.secretFiles = ["a", "b", "c"] } == ["secret-files"])
        #expect(Self.complaints { $0.url = "http://app.example.net/" } == ["url"])
        #expect(
            Self.complaints {
                $0.url = "http://app.example.net/"
                $0.allowsPlain = true
                $0.authorityFile = "/etc/ca"
            } == ["ca-file"])
    }

    @Test func `a private address needs the operator's word`() throws {
        #expect(Self.complaints { $0.url = "https://10.1.2.3/" } == ["url"])
        let block = try #require(AddressBlock("10.1.2.0/24"))
        #expect(
            Self.complaints {
                $0.url = "https://10.1.2.3/"
                $0.privateReceivers = [block]
            }.isEmpty)
    }

    @Test func `types can be chosen one by one or by group`() {
        var settings = EventSettings()
        #expect(settings.wantedTypes == Set(EventType.allCases))
        settings.types = ["call.missed", "device.*"]
        #expect(settings.wantedTypes == [.callMissed, .deviceRegistered, .deviceRemoved])
    }

    @Test func `the place in log lines has no path, and odd node names form a source`() {
        var settings = EventSettings()
        settings.url = "https://app.example.net/secret-path"
        #expect(settings.place == "https://app.example.net:443")
        settings.node = "sip 1"
        #expect(settings.origin == "/sippushd/7369702031")
        settings.node = "sip1"
        #expect(settings.origin == "/sippushd/sip1")
    }
}

@Suite("Secrets of events")
struct EventSecretsTests {
    private static let key = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    @Test func `the signature is that of Standard Webhooks`() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(Array("whsec_\(Self.key)\n".utf8), to: "one")
        let secrets = try EventSecrets(files: [path])
        // The example of the specification of Standard Webhooks.
        let text = try secrets.signatures(
            of: Array("{\"test\": 2432232314}".utf8), id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            at: UnixTime(seconds: 1_614_265_330))
        #expect(text == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        let both = try EventSecrets(files: [path, path]).signatures(of: [], id: "a", at: UnixTime(seconds: 1))
        #expect(both.split(separator: " ").count == 2)
    }

    @Test(arguments: ["", "whsec_", "whsec_short", key, "whsec_!!!", "whsec_" + String(repeating: "A", count: 400)])
    func `a useless secret is refused, and not repeated in the error`(text: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(Array(text.utf8), to: "one")
        let error = #expect(throws: (any Error).self) { try EventSecrets(files: [path]) }
        let words = error.map { "\($0)" } ?? ""
        #expect(words.contains("openssl rand") && (text.count < 20 || !words.contains(text)))
    }
}

@Suite("Pauses before events are sent again")
struct EventPacingTests {
    @Test func `pauses double up to five minutes, and begin anew after a success`() {
        var pacing = EventPacing()
        let pauses = (0..<12).map { _ in pacing.failed(wish: nil, chance: 1).components.seconds }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
        pacing.succeeded()
        #expect(pacing.failed(wish: nil, chance: 0) == .milliseconds(500))
    }

    @Test func `the receiver can ask for a longer pause, but not for a shorter one`() {
        var pacing = EventPacing()
        #expect(pacing.failed(wish: .seconds(60), chance: 0) == .seconds(60))
        #expect(pacing.failed(wish: .zero, chance: 1) == .seconds(2))
    }

    @Test(arguments: [200, 202, 204, 299]) func `each 2xx takes the events`(status: Int) {
        #expect(EventAnswer(status: status) == .taken)
    }

    @Test(arguments: [100, 301, 302, 307, 400, 401, 404, 410, 413, 429, 500, 503])
    func `any other answer keeps them`(status: Int) {
        guard case .again(let words) = EventAnswer(status: status) else {
            Issue.record("\(status) took the events")
            return
        }
        #expect(words.hasPrefix("status \(status)"))
    }
}
