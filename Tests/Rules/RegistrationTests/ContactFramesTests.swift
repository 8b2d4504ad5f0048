import Bytes
import TestSupport
import Testing

@testable import Registration

@Suite("Contacts kept in parts")
struct ContactFramesTests {
    /// Stores a contact in compact form, and reads it again together with its host.
    private func kept(
        _ contact: [UInt8], host: String = "pn.test", in frames: inout ContactFrames
    ) -> (frame: UInt16, contact: [UInt8], host: String, own: [UInt8]) {
        var own: [UInt8] = []
        let number = frames.fold(contact.span, host: Array(host.utf8).span, into: &own)
        var read: [UInt8] = []
        _ = frames[number].allParts(with: own.span) { part in
            read.append(part)
            return true
        }
        let readHost = frames[number].withHost(own.span) {
            String(decoding: ByteString(copying: $0).array, as: UTF8.self)
        }
        return (number, read, readHost, own)
    }

    private func phone(_ user: String, _ token: Character = "t", port: Int = 5060) -> String {
        "<sip:\(user)@10.0.0.1:\(port);pn-provider=fcm;pn-prid=\(String(repeating: token, count: 163))"
            + ";pn-param=com.example.an.app.with.a.long.name;transport=tls>"
            + ";message-expires=2419200;+sip.instance=\"<urn:uuid:6f5c1d5e-40f2-4d8b-9b3a-\(user)>\""
    }

    @Test func `phones of one app share a frame and keep only their own parts`() {
        var frames = ContactFrames()
        let contacts = (0..<20).map { Array(phone("00000000\(1000 + $0)", port: $0).utf8) }
        let all = contacts.map { kept($0, in: &frames) }
        #expect(Set(all.map(\.frame)).count == 1 && all[0].frame != ContactFrames.whole)
        #expect(all.map(\.contact) == contacts)
        #expect(all.allSatisfy { $0.host == "pn.test" && $0.own.count < $0.contact.count - 100 })
    }

    @Test func `invented texts of phones use no frames`() {
        var frames = ContactFrames()
        let all = (0..<2000).map { number in
            kept(Array("<sip:a\(number)@10.0.0.1;line=k\(number + 10_000)>;reg-id=1;x=86400".utf8), in: &frames)
        }
        #expect(Set(all.map(\.frame)).count == 1 && all[0].frame != ContactFrames.whole)
    }

    @Test func `when there are too many kinds, the rest are kept whole`() {
        var frames = ContactFrames()
        let texts = (0..<3000).map { Array("<sip:a@h>;reg-id=\($0)".utf8) }
        let all = texts.map { kept($0, in: &frames) }
        #expect(all.map(\.contact) == texts && all.allSatisfy { $0.host == "pn.test" })
        #expect(all[0].frame != ContactFrames.whole && all[2999].frame == ContactFrames.whole)
        #expect(kept(texts[0], in: &frames).frame == all[0].frame)
    }

    @Test func `another host or another app is another frame`() {
        var frames = ContactFrames()
        let one = Array(phone("000000001000").utf8)
        let other = Array(phone("000000001000").replacing("2419200", with: "60").utf8)
        let all = [
            kept(one, in: &frames), kept(one, host: "b.test", in: &frames), kept(other, in: &frames),
            kept(one, in: &frames),
        ]
        #expect(all.map(\.contact) == [one, one, other, one])
        #expect(all.map(\.host) == ["pn.test", "b.test", "pn.test", "pn.test"])
        #expect(Set(all.map(\.frame)).count == 3 && all[0].frame == all[3].frame)
    }

    @Test func `unusual contacts are read back unchanged`() {
        var frames = ContactFrames()
        let long = String(repeating: "x", count: 300)
        for text in [
            "", "<", ":", "<>", "sip", "<sip:b@h", "<tel:+15551234>", "<sip:b@h>;a=\"\(long);\(long)\"",
            ";;;=;=\(long);",
            "<sip:b@h;a=\(long);b=\(long);c=\(long);d=\(long);e=\(long);f=\(long);g=\(long)>", "<sip:\(long)>",
            String(repeating: "y", count: 8192), "<sip:b@h;\u{0}=\u{7f}\(long)\u{0}>",
        ] {
            for host in ["", "h", "pn.test"] {
                let read = kept(Array(text.utf8), host: host, in: &frames)
                #expect(read.contact == Array(text.utf8) && read.host == host)
            }
        }
    }

    @Test func `any bytes are read back, and differ from others`() {
        var random = SeededGenerator(seed: 3)
        var frames = ContactFrames()
        let letters = Array(";:=<>\"abpn-".utf8)
        for _ in 0..<3000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0..<80, using: &random) {
                let letter = letters[Int.random(in: letters.indices, using: &random)]
                for _ in 0..<Int.random(in: 1..<16, using: &random) { bytes.append(letter) }
            }
            let read = kept(bytes, in: &frames)
            #expect(read.contact == bytes && read.host == "pn.test")
            func isKept(_ bytes: [UInt8]) -> Bool { frames[read.frame].has(bytes.span, with: read.own.span) }
            #expect(isKept(bytes) && !isKept(bytes + [0]))
            guard !bytes.isEmpty else { continue }
            #expect(!isKept(Array(bytes.dropLast())))
            bytes[Int.random(in: bytes.indices, using: &random)] ^= 1
            #expect(!isKept(bytes))
        }
    }
}
