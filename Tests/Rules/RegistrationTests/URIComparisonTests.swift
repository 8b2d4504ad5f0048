import Bytes
@testable import Registration
import SIPGrammar
import Testing

extension SIPURI {
    fileprivate func isEquivalent(to other: SIPURI, ignoringPush: Bool = false) -> Bool {
        ComparableURI(self).isEquivalent(to: ComparableURI(other), ignoringPush: ignoringPush)
    }
}

@Suite("URI comparison (RFC 3261 section 19.1.4)")
struct URIComparisonTests {
    @Test(arguments: [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com"
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x"
        ),
        ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0:0::1]"), ("sip:a%2fb@h", "sip:a%2Fb@h"), ("sip:a@h;ob", "sip:a@h"),
        ("sip:a@h;pn-provider=fcm;pn-prid=a%3Ab;pn-param=p", "sip:a@h;pn-param=p;pn-prid=a%3ab;pn-provider=fcm"),
    ])
    func `equivalent`(left: String, right: String) throws {
        let (a, b) = (try uriOf(left), try uriOf(right))
        #expect(a.isEquivalent(to: b))
        #expect(b.isEquivalent(to: a))
    }

    @Test(arguments: [
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
        ("sip:bob@h", "sips:bob@h"), ("sip:bob@h.test", "sip:h.test"), ("sip:bob:x@h", "sip:bob:y@h"),
        ("sip:bob:x@h", "sip:bob@h"),
        ("sip:a@h;user=phone", "sip:a@h"), ("sip:a@h;ttl=1", "sip:a@h"), ("sip:a@h;method=INVITE", "sip:a@h"),
        ("sip:a@h;maddr=239.0.0.1", "sip:a@h"), ("sip:a%3Bb@h", "sip:a;b@h"), ("sip:a@h;ob", "sip:a@h;ob=1"),
        // Two URIs do not match if only one of them has a push parameter (RFC 8599 section 5.3). Tokens are
        // case-sensitive.
        ("sip:a@h;pn-prid=x", "sip:a@h"), ("sip:a@h;pn-provider=fcm", "sip:a@h"), ("sip:a@h;pn-param=x", "sip:a@h"),
        ("sip:a@h;pn-prid=x", "sip:a@h;pn-prid=X"), ("tel:+1", "tel:+2"),
    ])
    func `these URIs are not equivalent`(left: String, right: String) throws {
        let (a, b) = (try uriOf(left), try uriOf(right))
        #expect(!a.isEquivalent(to: b))
        #expect(!b.isEquivalent(to: a))
    }

    @Test func `equivalence is not transitive`() throws {
        let plain = try uriOf("sip:carol@chicago.com")
        #expect(plain.isEquivalent(to: try uriOf("sip:carol@chicago.com;security=on")))
        #expect(plain.isEquivalent(to: try uriOf("sip:carol@chicago.com;security=off")))
    }

    @Test func `push parameters can be left out of account`() throws {
        let push = try uriOf("sip:a@h;pn-provider=fcm;pn-prid=x;pn-param=p;pn-silent=1")
        #expect(push.isEquivalent(to: try uriOf("sip:a@h"), ignoringPush: true))
        #expect(!push.isEquivalent(to: try uriOf("sip:a@h:5061"), ignoringPush: true))
    }
}
