import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

/// Tests REGISTERs that were captured from linphonec 5.1.65, pjsua 2.17-dev and baresip 1.0.0.
@Suite("REGISTERs of real phones")
struct RealPhonesTests {
    private static let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
    private static let other = "1111111111111111111111111111111111111111111111111111111111111111"
    private static let instance = ";+sip.instance=\"<urn:uuid:cc30c5c7-4a72-578a-8740-b5b3a80d26e2>\""

    private static let linphoneUDP =
        "<sip:u@127.0.0.1:54075;pn-prid=\(token):voip;pn-provider=apns;pn-param=TEAM123.com.example.phone.voip;"
        + "pn-silent=1;pn-timeout=0;transport=udp>" + instance
    private static let linphoneTCP =
        "<sip:u@127.0.0.1:42528;pn-prid=\(token):voip&\(other):remote;pn-provider=apns;"
        + "pn-param=TEAM123.com.example.phone.voip&remote;pn-silent=1;pn-timeout=0;transport=tcp>" + instance
    private static let linphoneFCM =
        "<sip:u@127.0.0.1:59962;pn-prid=cXabc_dQ:APA91bHun;pn-provider=fcm;pn-param=my-project;pn-silent=1;"
        + "pn-timeout=0;transport=tcp>" + instance
    private static let pjsuaUDP =
        "<sip:u@127.0.0.1:42988;ob;pn-provider=apns;pn-prid=\(token):voip;pn-param=TEAM123.com.example.phone.voip>"
    private static let pjsuaTCP =
        "<sip:u@127.0.0.1:43349;transport=TCP;ob;pn-provider=apns;pn-prid=\(token):voip;"
        + "pn-param=TEAM123.com.example.phone.voip>;reg-id=1;"
        + "+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\""
    private static let baresip =
        "<sip:u-0x55f2d753bcf0@127.0.0.1:51985>;expires=600\(instance);q=0.5;pn-provider=apns;pn-prid=\(token):voip;"
        + "pn-param=TEAM123.com.example.phone.voip"

    @Test(arguments: [
        (linphoneUDP, "sip:u@127.0.0.1:54075;transport=udp", "\(token):voip"),
        (linphoneTCP, "sip:u@127.0.0.1:42528;transport=tcp", "\(token):voip&\(other):remote"),
        (linphoneFCM, "sip:u@127.0.0.1:59962;transport=tcp", "cXabc_dQ:APA91bHun"),
        (pjsuaUDP, "sip:u@127.0.0.1:42988;ob", "\(token):voip"),
        (pjsuaTCP, "sip:u@127.0.0.1:43349;transport=TCP;ob", "\(token):voip"),
        (baresip, "sip:u-0x55f2d753bcf0@127.0.0.1:51985", "\(token):voip"),
    ])
    func `are push contacts, called without their parameters`(contact: String, uri: String, prid: String) throws {
        var registrar = Registrar()
        let reply = try registrar.register(contact)
        let target = try #require(registrar.targets().first)
        #expect(target.requestURI.string == uri)
        guard case .sleeping(let token) = target.kind else {
            Issue.record("ordinary")
            return
        }
        #expect(token.prid.string == prid)
        #expect(reply.contacts.first?.contains("pn-prid=") == true)
        #expect(reply.contacts.first?.hasSuffix(";expires=600") == true)
    }

    @Test(arguments: [linphoneUDP, linphoneTCP, linphoneFCM, pjsuaUDP, pjsuaTCP, baresip])
    func `wake at a new address with a new Call-ID as the same device`(contact: String) throws {
        var registrar = Registrar()
        let asleep = try registrar.register(contact, callID: "before", cseq: 31)
        registrar.advance(.seconds(86_400))
        let woken = contact.replacing("@127.0.0.1:", with: "@192.0.2.77:")
        let reply = try registrar.register(woken, callID: "after", cseq: 20, on: .phone(7))
        #expect(reply.refreshed == asleep.refreshed)
        #expect(registrar.targets().map(\.flow) == [.phone(7)])
        let gone = try registrar.register(contact, expires: 0, callID: "third", on: .phone(9))
        // The Contact of the phone baresip contains expires=600, so baresip signs out with another Contact.
        if contact == Self.baresip {
            let signOut = contact.replacing("expires=600", with: "expires=0")
            #expect(try registrar.register(signOut, expires: nil, callID: "fourth").removed == asleep.refreshed)
        } else {
            #expect(gone.removed == asleep.refreshed)
        }
        #expect(registrar.bindings().isEmpty)
    }

    @Test func `the complete REGISTER of linphone, digest included`() throws {
        var registrar = Registrar()
        let request = try readRequest(
            """
            REGISTER sip:pn.test SIP/2.0\r
            Via: SIP/2.0/TCP 127.0.0.1:42528;alias;branch=z9hG4bK.Nf94FuJPv;rport\r
            From: <sip:u@pn.test>;tag=4aU7gwHF6\r
            To: sip:u@pn.test\r
            CSeq: 21 REGISTER\r
            Call-ID: 1Gxj7qpCC7\r
            Max-Forwards: 70\r
            Supported: replaces, outbound, gruu\r
            Accept: application/sdp\r
            Accept: text/plain\r
            Accept: application/vnd.gsma.rcs-ft-http+xml\r
            Contact: \(Self.linphoneTCP)\r
            Expires: 600\r
            User-Agent: Linphonec/5.1.65\r
            Content-Length: 0\r
            Authorization:  Digest realm="pn.test", nonce="awD2PmsA9RJdC7eZAw9QO3vPnwV8B7m9", username="u",  \
            uri="sip:pn.test", response="a6d8284003a314114d9d0f3cf570e593"\r
            \r

            """)
        let reply = try registrar.receive(request)
        #expect(reply.featureCaps == ["*;+sip.pns=\"apns\""])
        // The phone asks for GRUUs, and gets a public and a temporary GRUU.
        let contact = try #require(reply.contacts.first)
        #expect(contact.hasPrefix(Self.linphoneTCP + ";expires=600;pub-gruu=\"sip:u@pn.test;gr=urn:uuid:cc30c5c7-"))
        #expect(contact.contains(";temp-gruu=\"sip:tgruu."))
        // The captured digest response is for a challenge without qop, so the registrar challenges the phone again, with qop.
        var gate = Gate()
        #expect(gate.check(request) == .challenged)
    }
}
