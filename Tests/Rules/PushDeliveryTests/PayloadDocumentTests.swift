import Bytes
import Foundation
import JSON
import PushDelivery
import Testing
import Timekeeping

/// The program sends the payloads that docs/App-developers.md shows.
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
        try #require(PushSettings.sample(profile, type).body(push(to: token, message, badge: 1)))
    }

    /// The part of a Firebase message that the app gets.
    private static func data(_ profile: PayloadProfile, _ message: PushMessage = incomingCall()) throws -> String {
        let body = try body(profile, token(.fcm), message)
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

    /// Each block by the line above it.
    private static func samples() throws -> [String: String] {
        [
            "`ecss10.extended`, Firebase, a call:": try data(.ecss10Extended),
            "`ecss10.extended`, Firebase, a caller who hides:": try data(
                .ecss10Extended, incomingCall(isAnonymous: true)),
            "`ecss10.extended`, Firebase, the end of a call:": try data(.ecss10Extended, end),
            "`ecss10.extended`, Apple, a call:": try body(.ecss10Extended, both),
            "`ecss10.extended`, Apple, the end of a call:": try body(.ecss10Extended, both, end),
            "`ecss10.extended`, web push, a call:": try body(.ecss10Extended, browser),
            "`ecss10`, Firebase, a call:": try data(.ecss10), "`ecss10`, Apple, a call:": try body(.ecss10, both),
            "`ecss10`, Firebase, the end of a call:": try data(.ecss10, end),
            "`10d`, Firebase, a call:": try data(.tenDarts), "`10d`, Apple, a call:": try body(.tenDarts, both),
            "`10d`, Apple, a call in the background:": try body(.tenDarts, remote, incomingCall(), .background),
            "`10d`, Firebase, the end of a call:": try data(.tenDarts, end),
            "`10d`, Apple, the end of a call:": try body(.tenDarts, both, end),
            "`linphone`, Firebase, a call:": try data(.linphone),
            "`linphone`, Apple, a call, VoIP:": try body(.linphone, both),
            "`linphone`, Apple, a call, alert:": try body(.linphone, remote),
            "`linphone`, Apple, a call in the background:": try body(.linphone, remote, incomingCall(), .background),
            "`linphone`, Firebase, the end of a call:": try data(.linphone, end),
            "`linphone`, Apple, the end of a call:": try body(.linphone, both, end),
            "Acrobits, a call:": try body(.ecss10, token(.acrobits, "TOKEN", param: "com.example.phone")),
            "Your own service, a call:": try gateway(),
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

    /// The JSON with each member on a line.
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
