import Bytes
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests contacts that no phone sends (T1, T3, T10). A hostile contact that the reader accepts must not cause a trap or
/// a malformed answer.
@Suite("Hostile contacts")
struct HostileContactTests {
    @Test(arguments: 1...8)
    func `random contacts cause no crash, and no line ends or foreign tokens in responses`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var registrar = Registrar()
        registrar.settings.unsupportedPush = .ordinary
        registrar.settings.maxContacts = 100
        var accepted = 0
        for number in 0..<400 {
            let contact = Self.contact(&random)
            guard let request = Self.request(contact, number) else { continue }
            let reply = try registrar.receive(request)
            guard reply.status == 200 else { continue }
            accepted += 1
            for row in reply.rows {
                #expect(!row.utf8.contains(UInt8(ascii: "\n")) && !row.utf8.contains(UInt8(ascii: "\r")))
                #expect(["Contact", "Feature-Caps", "Date"].contains { row.hasPrefix("\($0): ") })
            }
            for target in registrar.targets() {
                let uri = target.requestURI.string
                #expect(!uri.contains(";pn-prid") && !uri.contains(";%70n-prid"))
            }
            for row in registrar.rows(of: "bob") {
                var after = Registrar(now: registrar.now)
                #expect(after.restore([row]) == [true])
                #expect(after.contacts() == [row.contact.string])
            }
            if registrar.bindings().count > 20 { try registrar.register("*", expires: 0, callID: "star\(number)") }
        }
        #expect(accepted > 50)
    }

    @Test(arguments: 1...200)
    func `any bytes of a param are kept, in the URI and after it, and over a restart`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var param: [UInt8] = []
        for _ in 0..<Int.random(in: 1...60, using: &random) { param.append(UInt8.random(in: 0...255, using: &random)) }
        let escaped = param.map { byte in
            let hex = String(byte, radix: 16)
            return "%" + (hex.count == 1 ? "0" : "") + hex
        }.joined()
        let token = PushToken(provider: .fcm, param: ByteString(param), prid: ByteString("t"))
        for contact in [
            "<sip:bob@10.0.0.5;pn-provider=fcm;pn-prid=t;pn-param=\(escaped)>",
            "<sip:bob@10.0.0.5>;pn-provider=fcm;pn-prid=t;pn-param=\"\(escaped)\"",
        ] {
            var registrar = Registrar()
            try registrar.register(contact)
            #expect(registrar.targets().map(\.kind) == [.sleeping(token)])
            var after = Registrar(now: registrar.now)
            #expect(after.restore(registrar.rows(of: "bob")) == [true])
            #expect(after.targets().map(\.kind) == [.sleeping(token)])
            #expect("\(token)".count < 24, "a description must not tell the token")
        }
    }

    @Test func `a value too long for memory is refused`() throws {
        var registrar = Registrar()
        let long = String(repeating: "x", count: 9000)
        #expect(try registrar.register("<sip:bob@10.0.0.5>;a=\(long)").status == 400)
        let callID = String(repeating: "c", count: 2049)
        #expect(try registrar.register(PhoneContact.ordinary(), callID: callID).status == 400)
        #expect(try registrar.register(PhoneContact.ordinary(), callID: String(callID.dropLast())).status == 200)
        #expect(registrar.bindings().count == 1)
    }

    // MARK: Random contacts

    private static let pieces = [
        "<", ">", ";", "=", "\"", "\\", "%", "%0d%0a", "%00", "?", "@", ":", "[", "]", ",", " ", "sip:", "sips:",
        "tel:",
        "bob", "10.0.0.5", "[::1]", "pn-prid", "%70n-prid", "pn-provider", "fcm", "apns", "acme", "pn-param", "a:b&c:d",
        "label", "+sip.instance", "reg-id", "q", "0.5", "expires", "600", "0", "{{", "é", "transport", "udp", "method",
        "INVITE", "\r\n ", "lr", "ob", "app-id", "pn-tok", "pn-type", "apple",
    ]

    /// Makes a random contact. Half of the contacts begin like a valid contact, so that the reader accepts some
    /// contacts.
    private static func contact(_ random: inout SeededGenerator) -> String {
        var text = random.chance(0.8) ? "<sip:bob@10.0.0.\(Int.random(in: 1...9, using: &random))" : ""
        let isOpen = !text.isEmpty
        var closes = isOpen
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            if closes, random.chance(0.3) {
                text += ">"
                closes = false
            }
            if isOpen {
                text += ";\(pieces.randomElement(using: &random) ?? "")"
                if random.chance(0.7) { text += "=\(pieces.randomElement(using: &random) ?? "")" }
            } else {
                text += pieces.randomElement(using: &random) ?? ""
            }
        }
        return closes ? text + ">" : text
    }

    private static func request(_ contact: String, _ number: Int) -> SIPRequest? {
        let text =
            "REGISTER sip:pn.test SIP/2.0\r\nVia: SIP/2.0/UDP h.test;branch=z9hG4bK\(number)\r\n"
            + "From: <sip:bob@pn.test>;tag=1\r\nTo: <sip:bob@pn.test>\r\nCall-ID: c\(number)\r\nCSeq: 1 REGISTER\r\n"
            + "Max-Forwards: 70\r\nContact: \(contact)\r\nContent-Length: 0\r\n\r\n"
        return SIPText.readRequest(Array(text.utf8))
    }
}
