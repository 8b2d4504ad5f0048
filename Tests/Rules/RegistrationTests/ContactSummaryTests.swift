import Bytes
import PushDelivery
import SIPGrammar
import TestSupport
import Testing

@testable import Registration

@Suite("Stored contacts at the start")
struct ContactSummaryTests {
    @Test(arguments: [
        (PhoneContact.fcm(), PushProvider?.some(.fcm), false), (PhoneContact.apple(), .apns, false),
        (PhoneContact.ordinary(), nil, false), (PhoneContact.fcm(after: ";+sip.pnsreg;expires=3"), .fcm, true),
        (
            "<sip:b@h;pn-provider=FCM;pn-prid=a:b%3Dc;transport=tcp>;+sip.instance=\"<urn:uuid:1>\";reg-id=1", .fcm,
            false
        ),
        ("<sip:b@[2001:db8::1]:5070;ob>;+SIP.PNSREG=\"121\"", nil, true), ("<sip:h>", nil, false),
    ])
    func `usual contacts need no complete reading`(contact: String, provider: PushProvider?, refreshes: Bool) throws {
        let summary = try #require(ContactSummary(ByteString(contact)))
        #expect(summary.token?.provider == provider)
        #expect(summary.refreshesItself == refreshes)
    }

    @Test(arguments: [
        "<sip:b@h;pn-provider=apns;pn-prid=AA:voip&BB:remote;pn-param=T.app.voip&remote>",
        "<sip:b@h;pn-provider=webpush;pn-prid=AA>", "<sip:b@h;pn-provider=fcm>", "<sip:b@h;pn-provider=fcm;pn-prid=>",
        "<sip:b;pn-provider=fcm;pn-prid=AA@h>", "<sip:b@h>;q=0.5", "<sip:b@h>;pn-provider=fcm;pn-prid=AA", "<sips:b@h>",
        "<tel:103>", "<sip:b@h>;a=\"", "<sip:b@h?x=y>",
    ])
    func `others are read in full`(contact: String) { #expect(ContactSummary(ByteString(contact)) == nil) }

    /// Whenever the summary gives an answer without reading the contact, the full contact must give the same answer.
    @Test func `it always agrees with the complete contact`() {
        let addresses = ["b@h", "h", "b@[::1]:5070", "b:p@h:1", "b;x@h", "", "@h", "b@", "b@:1", "b@c@d"]
        let parameters = [
            "pn-provider=fcm", "PN-Provider=apns", "pn-provider=apns", "pn-provider=apple", "pn-provider=",
            "pn-provider",
            "pn-provider=http", "pn-prid=AA", "pn-prid=\(String(repeating: "AA", count: 32))", "pn-prid=A%26A",
            "pn-prid=A%3aA", "pn-prid=AA:voip", "pn-prid=AA&BB", "pn-prid=",
            "pn-prid",
            "pn-param=T.app", "pn-param=T.app.voip", "pn-params=T.app.voip&remote", "pn-param=", "pn-type=firebase",
            "pn-tok=AA", "pn-silent=1", "transport=tcp", "ob", "", "=", "x@y",
        ]
        let behind = [
            ";q=0.3", ";Q=1", ";+sip.pnsreg", ";+sip.pnsreg=\"121\"", ";a=\"b;q=0.1\"", ";a=\"\\\";q=0.2\"",
            ";pn-prid=BB",
            ";pn-provider=fcm", ";", ";b=<c>", "x", " ;c", ";d=\"e",
        ]
        var random = SeededGenerator(seed: 7)
        let settings = RegistrarSettings()
        var known = 0
        for _ in 0..<20_000 {
            var text = random.chance(0.1) ? "<SIP:" : "<sip:"
            text += addresses.randomElement(using: &random) ?? ""
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                text += ";\(parameters.randomElement(using: &random) ?? "")"
            }
            text += random.chance(0.05) ? "?h=v>" : ">"
            while random.chance(0.4) { text += behind.randomElement(using: &random) ?? "" }
            guard let summary = ContactSummary(ByteString(text)) else { continue }
            known += 1
            guard let contact = ContactText.read(ByteString(text)) else {
                Issue.record("\(text) cannot be read")
                continue
            }
            let push = PushParameters(contact: contact, settings: settings)
            let token = summary.token
            let problem = token.flatMap { settings.push.problem(with: $0) }
            #expect(push == token.map { problem.map(PushParameters.unsupported) ?? .push($0) } ?? .none, "\(text)")
            #expect(contact.q == 1000, "\(text)")
            #expect(
                contact.marks(needsReview: false, isFlow: false).contains(.refreshesItself) == summary.refreshesItself,
                "\(text)")
        }
        #expect(known > 1000)
    }
}
