import Bytes
import Foundation
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

/// Tests that the daemon sends the payloads that docs/App-developers.md shows.
@Suite("Payloads in the page for developers of apps")
struct PayloadDocumentTests {
    private static let page = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../../docs/App-developers.md").standardized

    private static let both = token(.apns, "aabb:voip&ccdd:remote", param: "T.com.example.phone.voip&remote")
    private static let remote = token(.apns, "ccdd", param: "T.com.example.phone.remote")
    private static let browser = token(
        .webPush, "https://updates.push.services.mozilla.com/wpush/v2/x", param: "\(browserKey).\(browserSecret)")

    private static let end = PushMessage.notification(
        PushNotification(
            EndedCallNotice(
                IncomingCall(
                    callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:103@example.net"),
                    displayName: ByteString("Anna"), isAnonymous: false, receivedAt: sampleDate,
                    callID: ByteString("a84b4c76e66710@pc33.example.net")), .answeredElsewhere),
            expiresAt: sampleDate + .seconds(30)))

    private static func body(
        _ profile: PayloadProfile, _ token: PushToken, _ message: PushMessage = incomingCall(),
        _ type: RemotePushType = .alert
    ) throws -> String {
        // Only pushes for calls have a nonce.
        var nonce: String?
        if case .incomingCall = message { nonce = "AAAAAAsAADh-Tb3k9Qx0cWZr2LuA" }
        return try #require(PushSettings.sample(profile, type).body(push(to: token, message, badge: 1, nonce: nonce)))
    }

    /// Returns the part of a Firebase message that the app receives.
    private static func data(_ profile: PayloadProfile, _ message: PushMessage = incomingCall()) throws -> String {
        let body = try body(profile, token(.fcm), message)
        let start = try #require(body.range(of: "\"data\":")).upperBound
        return String(body[start...].dropLast(2))
    }

    /// Returns the string `data` of a push for a call over Huawei.
    private static func huawei() throws -> String {
        var settings = PushSettings()
        settings.hms.enabled = true
        settings.hms.appID = "100123456"
        settings.hms.clientSecret = Secret("s")
        let call = push(to: token(.hms, param: "100123456"), incomingCall(), nonce: "AAAAAAsAADh-Tb3k9Qx0cWZr2LuA")
        let request = try #require(settings.rendered(call))
        let message = try JSONValue(request.body)["message"]
        return try #require(message?["data"]?.string)
    }

    /// Returns the object `data` of a push with a list of missed calls over RuStore.
    private static func ruStore() throws -> String {
        var settings = PushSettings()
        settings.ruStore.enabled = true
        settings.ruStore.projectID = "shop"
        settings.ruStore.serviceToken = Secret("s")
        let list = push(to: token(.ruStore, param: "shop"), missedCalls([("103", 1_623_753_600)]))
        let body = try #require(settings.body(list))
        let start = try #require(body.range(of: "\"data\":")).upperBound
        return String(body[start...].dropLast(2))
    }

    private static func gateway() throws -> String {
        let template =
            "url: https://push.example.net/wake\n" + #"body: '{"to":"{{token}}","kind":"{{type}}","from":"{{caller}}","#
            + #""name":"{{display-name}}","call":"{{call-id}}","sent":"{{sent}}","ttl":"{{ttl}}"}'"#
        let device = token(.http, "tok", param: "gateway")
        return try #require(try gatewaySettings(template).body(push(to: device, incomingCall())))
    }

    /// Reads the JSON blocks of the document, by the line above each block.
    private static func samples() throws -> [String: String] {
        [
            "Payload `ecss10.extended` over Firebase, for a call:": try data(.ecss10Extended),
            "Payload `ecss10.extended` over Firebase, for an anonymous caller:": try data(
                .ecss10Extended, incomingCall(isAnonymous: true)),
            "Payload `ecss10.extended` over Firebase, for the end of a call:": try data(.ecss10Extended, end),
            "Payload `ecss10.extended` over Apple, for a call:": try body(.ecss10Extended, both),
            "Payload `ecss10.extended` over Apple, for the end of a call:": try body(.ecss10Extended, both, end),
            "Payload `ecss10.extended` over web push, for a call:": try body(.ecss10Extended, browser),
            "Payload `ecss10.extended` over Huawei, for a call, in the string `data`:": try huawei(),
            "Payload `ecss10.extended` over RuStore, for a list of missed calls:": try ruStore(),
            "Payload `ecss10` over Firebase, for a call:": try data(.ecss10),
            "Payload `ecss10` over Apple, for a call:": try body(.ecss10, both),
            "Payload `ecss10` over Firebase, for the end of a call:": try data(.ecss10, end),
            "Payload `10d` over Firebase, for a call:": try data(.tenDarts),
            "Payload `10d` over Apple, for a call:": try body(.tenDarts, both),
            "Payload `10d` over Apple, for a call, as a background push:": try body(
                .tenDarts, remote, incomingCall(), .background),
            "Payload `10d` over Firebase, for the end of a call:": try data(.tenDarts, end),
            "Payload `10d` over Apple, for the end of a call:": try body(.tenDarts, both, end),
            "Payload `linphone` over Firebase, for a call:": try data(.linphone),
            "Payload `linphone` over Apple, for a call, as a VoIP push:": try body(.linphone, both),
            "Payload `linphone` over Apple, for a call, as an alert:": try body(.linphone, remote),
            "Payload `linphone` over Apple, for a call, as a background push:": try body(
                .linphone, remote, incomingCall(), .background),
            "Payload `linphone` over Firebase, for the end of a call:": try data(.linphone, end),
            "Payload `linphone` over Apple, for the end of a call:": try body(.linphone, both, end),
            "Acrobits, a call:": try body(.ecss10, token(.acrobits, "TOKEN", param: "com.example.phone")),
            "Payload of your own service, for a call:": try gateway(),
        ]
    }

    @Test func `each block is what is sent, and none is missing`() throws {
        let page = try String(contentsOf: Self.page, encoding: .utf8)
        var blocks: [String: String] = [:]
        let parts = page.components(separatedBy: "\n```json\n")
        for (before, block) in zip(parts, parts.dropFirst()) {
            let caption = before.split(separator: "\n").last.map(String.init) ?? ""
            let body = block.components(separatedBy: "\n```").first
            #expect(blocks.updateValue(body ?? "", forKey: caption) == nil, "\(caption) is there twice")
        }
        let samples = try Self.samples()
        #expect(Set(blocks.keys) == Set(samples.keys))
        for (caption, json) in samples.sorted(by: { $0.key < $1.key }) {
            let expected = Self.indented(json)
            #expect(blocks[caption] == expected, "\(caption)\n\n```json\n\(expected)\n```")
        }
    }

    /// The JSON text with each member on its own line.
    private static func indented(_ json: String) -> String {
        var out = ""
        var depth = 0
        var inString = false
        var isEscaped = false
        func line() -> String { "\n" + String(repeating: "    ", count: depth) }
        for character in json {
            if inString {
                out.append(character)
                if isEscaped {
                    isEscaped = false
                } else if character == "\\" {
                    isEscaped = true
                } else if character == "\"" {
                    inString = false
                }
                continue
            }
            switch character {
            case "\"":
                inString = true
                out.append(character)
            case "{":
                depth += 1
                out += "{" + line()
            case "}":
                depth -= 1
                out =
                    out.hasSuffix("{" + "\n" + String(repeating: "    ", count: depth + 1))
                    ? String(out.dropLast(1 + 4 * (depth + 1))) + "}" : out + line() + "}"
            case ",": out += "," + line()
            case ":": out += ": "
            default: out.append(character)
            }
        }
        return out
    }
}
