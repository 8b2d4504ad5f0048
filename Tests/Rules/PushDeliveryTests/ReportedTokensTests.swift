import Bytes
import Foundation
import PushDelivery
import Testing

/// The token for calls in the documentation, in base64 as an app reports it and in hexadecimal digits as Apple expects
/// it.
private let calls = "Udl99X2JFP1bWwS5gR/wGeLE1hmAB2CMpr1Ej0wxkrY="
private let hex = "51d97df57d8914fd5b5b04b9811ff019e2c4d6198007608ca6bd448f4c3192b6"
/// The example of a push token for messages from Acrobits' documentation. The base64 text has 63 characters, because
/// its padding is missing.
private let messages = "QVBBOTFiRzlhYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5el8wMTIzNDU2Nzg5LTo"
private let google = "APA91bG9abcdefghijklmnopqrstuvwxyz_0123456789-:"

private func part(_ token: String?, _ app: String?) -> ReportedTokens.Part {
    ReportedTokens.Part(token: token.map { ByteString($0) }, appID: app.map { ByteString($0) })
}

private func told(
    _ form: ReportedTokens.Form, calls: (String?, String?) = (nil, nil), other: (String?, String?) = (nil, nil),
    selector: String = ""
) -> ReportedTokens {
    ReportedTokens(
        form: form, calls: part(calls.0, calls.1), other: part(other.0, other.1), selector: ByteString(selector))
}

private func text(_ token: PushToken?) -> String? {
    token.map { "\($0.provider.rawValue) \($0.param) \($0.prid)" }
}

private func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

@Suite("Tokens that apps report")
struct ReportedTokensTests {
    // MARK: For direct pushes

    @Test(arguments: [
        calls, String(calls.dropLast()), calls.replacing("/", with: "_"), calls + "=", calls.replacing("=", with: "=="),
    ])
    func `32 bytes are Apple's, in either alphabet, with any padding`(token: String) {
        #expect(
            text(told(.direct, calls: (token, "com.a.voip")).pushToken(over: nil)) == "apns TEAM.com.a.voip \(hex):voip"
        )
        #expect(
            text(told(.direct, other: (token, "com.a")).pushToken(over: nil)) == "apns TEAM.com.a.remote \(hex):remote")
        #expect(ReportedTokens.name(of: ByteString(token), .direct) == ByteString(hex))
        #expect(ReportedTokens.name(of: ByteString(token), .acrobits) == ByteString(token))
    }

    @Test func `bytes with every character of either alphabet are read as they are`() {
        // The tokens are tested in both alphabets of base64, in which 0xfb and 0xff become `+/` or `-_`.
        let bytes = [UInt8](repeating: 0xfb, count: 16) + [UInt8](repeating: 0xff, count: 16)
        let plain = base64(bytes)
        #expect(plain.contains("+") && plain.contains("/"))
        let wanted = ByteString(String(repeating: "fb", count: 16) + String(repeating: "ff", count: 16))
        for token in [plain, plain.replacing("+", with: "-").replacing("/", with: "_")] {
            #expect(ReportedTokens.name(of: ByteString(token), .direct) == wanted)
        }
    }

    @Test(arguments: [messages, messages + "=", base64(Array(google.utf8))])
    func `printable text is Google's`(token: String) {
        for told in [told(.direct, calls: (token, "app")), told(.direct, other: (token, "app"))] {
            #expect(text(told.pushToken(over: nil)) == "fcm app \(google)")
        }
        #expect(messages.count == 63)
    }

    @Test(arguments: [
        // Invalid tokens: they have 31 or 33 bytes, a space, no byte, or a single character.
        base64([UInt8](repeating: 1, count: 31)), base64([UInt8](repeating: 1, count: 33)),
        base64(Array("a token".utf8)), "=", "A", "AAAAA",
    ])
    func `other tokens belong to no provider`(token: String) {
        #expect(told(.direct, calls: (token, "app")).pushToken(over: nil) == nil)
        #expect(told(.direct, other: (token, "app")).pushToken(over: nil) == nil)
        #expect(ReportedTokens.name(of: ByteString(token), .direct) == nil)
    }

    @Test func `of two Google tokens the one for calls counts, and two of different services are refused`() {
        let second = base64(Array("second".utf8))
        #expect(
            text(told(.direct, calls: (second, "c"), other: (messages, "o")).pushToken(over: nil)) == "fcm c second")
        #expect(
            text(told(.direct, calls: (second, nil), other: (messages, "o")).pushToken(over: nil)) == "fcm o second")
        #expect(told(.direct, calls: (calls, "a.voip"), other: (messages, "a")).pushToken(over: nil) == nil)
        #expect(told(.direct, calls: (messages, "a"), other: (calls, "a")).pushToken(over: nil) == nil)
    }

    @Test func `an Apple device keeps its environment, its team and the token that was not reported`() {
        let stored = token(.apnsDevelopment, "\(hex.uppercased()):voip&BB:remote", param: "DEF123.com.a.voip&remote")
        // The report has the stored token in another notation.
        #expect(told(.direct, calls: (calls, "com.a.voip")).pushToken(over: stored) == stored)
        #expect(told(.direct, calls: (calls, nil)).pushToken(over: stored) == stored)
        #expect(
            text(told(.direct, calls: (calls, nil), other: (calls, nil)).pushToken(over: stored))
                == "apns.dev DEF123.com.a.voip&remote \(hex):voip&\(hex):remote")
        // The report names the service of a token that had no service name.
        let single = token(.apns, hex, param: "DEF123.com.a.voip")
        #expect(told(.direct, calls: (calls, nil)).pushToken(over: single) == single)
        // A report with a new token does not tell the environment, and a report with another app does not tell the
        // team.
        let new = base64([UInt8](repeating: 9, count: 32))
        #expect(
            text(told(.direct, calls: (new, "com.a.voip"), other: (new, nil)).pushToken(over: stored))?.hasPrefix(
                "apns TEAM.com.a.voip&remote ") == true)
        #expect(told(.direct, calls: (new, "com.a.voip")).pushToken(over: stored)?.provider == .apnsDevelopment)
        #expect(
            told(.direct, calls: (calls, "com.b.voip")).pushToken(over: stored)?.param.string.hasPrefix("TEAM.com.b.")
                == true)
    }

    // MARK: For the mediator

    @Test(
        arguments: [
            (("C", "a"), (nil, nil), "", nil, "acrobits a C:calls"),
            ((nil, nil), ("O", "b"), "", nil, "acrobits b O"),
            (("C", "a"), ("O", "b"), "S:1", nil, "acrobits a&b:S:1 C:calls&O:other"),
            // A stored token that the report lacks stays stored, together with its app.
            (("C2", nil), (nil, nil), "", "a&b:S:1 C:calls&O:other", "acrobits a&b:S:1 C2:calls&O:other"),
            (("C2", "x"), (nil, "y"), "", "a&b:S:1 C:calls&O:other", "acrobits x&b:S:1 C2:calls&O:other"),
            ((nil, nil), ("O2", nil), "S:2", "a&b:S:1 C:calls&O:other", "acrobits a&b:S:2 C:calls&O2:other"),
            ((nil, nil), ("O", "b"), "S:1", "a:S:1 C:calls", "acrobits a&b:S:1 C:calls&O:other"),
            // Until the app reports its second token, the daemon uses the first token for both services.
            (("C", "a"), (nil, nil), "S:1", "b:S:1 O", "acrobits a&b:S:1 C:calls&O:other"),
            ((nil, nil), ("O2", nil), "S:1", "b:S:1 O", "acrobits b:S:1 O2"),
            // A reported value that equals the stored one in another notation leaves the stored notation unchanged.
            (("C", "a"), ("O", "b"), "S:1", "a&b:S:1 O:other&C:calls", "acrobits a&b:S:1 O:other&C:calls"),
            // Reports that name no app, for devices whose app the daemon does not know.
            (("C", nil), (nil, nil), "S:1", nil, nil), (("C", "a"), ("O", nil), "S:1", nil, nil),
            ((nil, "a"), (nil, "b"), "S:1", nil, nil),
        ] as [((String?, String?), (String?, String?), String, String?, String?)])
    func `the mediator's tokens are reported together`(
        calls: (String?, String?), other: (String?, String?), selector: String, stored: String?, expected: String?
    ) {
        let known = stored?.split(separator: " ").map(String.init)
        let over = known.map { token(.acrobits, $0[1], param: $0[0]) }
        #expect(text(told(.acrobits, calls: calls, other: other, selector: selector).pushToken(over: over)) == expected)
    }

    // MARK: One installation

    @Test(arguments: [
        ("apns", "T.com.a.voip", "\(hex):voip", true), ("apns", "T.com.a", hex.uppercased(), true),
        ("apns.dev", "T.com.a.voip&remote", "aa:remote&\(hex):voip", true), ("apns", "T.com.a", "aa", false),
        ("fcm", "p", google, true), ("fcm", "p", google.lowercased(), false),
        ("acrobits", "a:S:1", calls, true), ("acrobits", "a:S:1", "X:calls&\(calls):other", true),
        ("acrobits", "a:S:1", "\(calls):calls&X:other", true), ("acrobits", "a:S:1", calls.lowercased(), false),
        ("acrobits", "a:S:1", "X:calls", false), ("http", "a", calls, false), ("webpush", "", calls, false),
    ])
    func `a report shares an equal stored token`(
        provider: String, param: String, prid: String, isSame: Bool
    ) throws {
        let stored = token(try #require(PushProvider(ByteString(provider))), prid, param: param)
        #expect(
            (told(.direct, calls: (calls, "x")).shares(stored) || told(.direct, other: (messages, "x")).shares(stored))
                == isSame)
        #expect(told(.direct).shares(stored) == false)
    }

    @Test func `the same installation is recognized in any notation`() {
        let two = token(.apns, "AA:voip&BB:remote", param: "T.a.voip&remote")
        let one = token(.apnsDevelopment, "bb", param: "ABCD1234.a")
        #expect(two.reachesInstallation(of: one) && one.reachesInstallation(of: two))
        #expect(two.covers(one) && !one.covers(two))
        #expect(!two.reachesInstallation(of: token(.apns, "cc", param: "T.a")))
        #expect(!token(.fcm, "bb").reachesInstallation(of: one))
        #expect(token(.fcm, "t", param: "p").covers(token(.fcm, "t", param: "q")))
        #expect(token(.http, "t", param: "p").covers(token(.http, "t", param: "p")))
        #expect(!token(.http, "t", param: "p").covers(token(.http, "t", param: "q")))
        #expect(two.isNamed(ByteString("bb")) && two.isNamed(ByteString("BB")) && two.isNamed(two.prid))
        #expect(!two.isNamed(ByteString("cc")) && !two.isNamed(.empty))
        #expect(!token(.fcm, "t").isNamed(ByteString("T")) && token(.http, "t").isNamed(ByteString("t")))
    }

    @Test func `a selector is the account's, with its colon`() {
        #expect(ReportedTokens.selector(of: token(.acrobits, "T", param: "a&b:S:1")) == ByteString("S:1"))
        #expect(ReportedTokens.selector(of: token(.acrobits, "T", param: "a")) == nil)
        #expect(ReportedTokens.selector(of: token(.fcm, "T", param: "a:S:1")) == nil)
    }
}
