import JSON
import PushDelivery
import SIPGrammar
import Testing
import Timekeeping

/// What peers may send as a name, a caller or a token.
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

/// The hostile texts, and noise.
private let texts: [[UInt8]] = {
    var state: UInt64 = 3
    return hostile
        + (0..<300).map { length in
            (0..<length % 64 + 1).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 40)
            }
        }
}()

private let settings = PushSettings.sample

private func legacySettings() -> PushSettings {
    var settings = PushSettings.sample
    settings.fcm.bodyFormat = .legacy
    return settings
}

private func call(_ bytes: [UInt8]) -> PushMessage {
    .incomingCall(
        IncomingCall(
            callRef: CallRef(rawValue: 1), callerURI: ByteString(bytes), displayName: ByteString(bytes),
            isAnonymous: false, receivedAt: sampleDate, callID: ByteString(bytes)))
}

@Suite("Whatever bytes stand in a name, caller or token (T10)")
struct HostileTextTests {
    /// The text, or its beginning when it is long.
    private func holds(_ found: String?, _ bytes: [UInt8]) -> Bool {
        guard let found else { return false }
        let whole = String(decoding: bytes, as: UTF8.self)
        return found == whole
            || (bytes.count > 300 && !found.isEmpty && whole.unicodeScalars.starts(with: found.unicodeScalars))
    }

    @Test func `names and callers read back from Apple's payload`() throws {
        for text in texts {
            let device = token(.apns, "AB", param: "T.b")
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
            let legacy = try JSONValue(try #require(legacySettings().rendered(push(to: device, list))?.body))
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
        // Those left out name a service that does not exist, or are dots.
        #expect(rendered > texts.count / 2)
    }

    @Test func `headers hold nothing of the device but a bundle of safe letters`() throws {
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
