import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Messages of real phones")
struct RealPhonesTests {
    private static let linphone = """
        REGISTER sip:pn.test SIP/2.0
        Via: SIP/2.0/TCP 127.0.0.1:42528;alias;branch=z9hG4bK.Nf94FuJPv;rport
        From: <sip:u@pn.test>;tag=4aU7gwHF6
        To: sip:u@pn.test
        CSeq: 21 REGISTER
        Call-ID: 1Gxj7qpCC7
        Max-Forwards: 70
        Supported: replaces, outbound, gruu
        Accept: application/sdp
        Contact: <sip:u@127.0.0.1:42528;pn-prid=00fc:voip&1111:remote;pn-provider=apns;pn-param=TEAM123.com.example.phone.voip&remote;pn-silent=1;pn-timeout=0;transport=tcp>;+sip.instance="<urn:uuid:cc30c5c7-4a72-578a-8740-b5b3a80d26e2>"
        Expires: 600
        User-Agent: Linphonec/5.1.65
        Content-Length: 0
        Authorization:  Digest realm="pn.test", nonce="awD2", username="u",  uri="sip:pn.test", response="a6d8"


        """

    @Test func `a linphone REGISTER with digest`() throws {
        let register = try request(wire(Self.linphone))
        #expect(register.method == .register)
        #expect(register.uri.host == "pn.test")
        #expect(register.via.transport == "TCP")
        #expect(register.via.port == 42528)
        #expect(register.via.wantsResponsePort)
        #expect(register.to.uri.text == "sip:u@pn.test")
        #expect(register.to.uri.user.map { $0 == "u" } == true)
        #expect(register.from.tag.map { $0 == "4aU7gwHF6" } == true)
        #expect(register.cseq == CSeq(number: 21, method: .register))
        #expect(register.expires == 600)
        let contact = try #require(register.contacts.first)
        #expect(contact.uri.port == 42528)
        #expect(contact.uri.parameters.value(of: "pn-prid").map { $0 == "00fc:voip&1111:remote" } == true)
        #expect(
            contact.parameters.value(of: "+sip.instance").map {
                $0.unquoted() == "<urn:uuid:cc30c5c7-4a72-578a-8740-b5b3a80d26e2>"
            } == true)
        let credentials = try #require(register.authorization.first)
        #expect(credentials.username == "u")
        #expect(credentials.response == "a6d8")
        #expect(credentials.qop == nil)
    }

    @Test func `escapes stay as they were, NUL among them`() throws {
        let text = Self.linphone.replacing(
            "sip:u@127.0.0.1:42528;pn-prid=00fc:voip", with: "sip:nul%00-%3D@127.0.0.1:42528;pn-prid=a%3Db%00c")
        let contact = try #require(try request(wire(text)).contacts.first)
        #expect(contact.uri.user.map { $0 == "nul%00-%3D" } == true)
        #expect(
            contact.uri.parameters.value(of: "pn-prid").map { $0.percentDecoded().array }
                == Array("a=b\u{0}c&1111:remote".utf8))
        #expect(contact.uri.text.hasPrefix("sip:nul%00-%3D@127"))
    }

    @Test(
        arguments: [
            "<sip:u@127.0.0.1:42988;ob;pn-provider=apns;pn-prid=TOK:voip;pn-param=T.com.example>",
            "<sip:u@127.0.0.1:43349;transport=TCP;ob;pn-provider=apns;pn-prid=TOK:voip;pn-param=T.com.example>;reg-id=1"
                + ";+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\"",
            "<sip:u-0x55f2d753bcf0@127.0.0.1:51985>;q=0.5;pn-provider=apns;pn-prid=TOK:voip;pn-param=T.com.example",
            "<sip:u@127.0.0.1:59962;pn-prid=TOK:voip;pn-provider=apns;pn-param=T.com.example;pn-silent=1;transport=tcp>",
        ])
    func `push parameters of pjsua, baresip and linphone are in the URI or after it`(value: String) throws {
        let text = Self.linphone.replacing(/Contact: .*/, with: "Contact: \(value)")
        let contact = try #require(try request(wire(text)).contacts.first)
        func parameter(_ name: StaticString) -> ByteString? {
            contact.uri.parameters.value(of: name) ?? contact.parameters.value(of: name)
        }
        #expect(parameter("pn-provider") == ByteString("apns"))
        #expect(parameter("pn-prid") == ByteString("TOK:voip"))
        #expect(parameter("pn-param") == ByteString("T.com.example"))
        #expect(ByteString(value).withoutPushParameters().string.contains("pn-") == false)
    }

    @Test func `a Content-Length may follow two spaces, or come before other rows`() throws {
        let text = Self.linphone.replacing("Content-Length: 0", with: "Content-Length:  0")
        #expect(try request(wire(text)).frame.body.isEmpty)
        #expect(try request(wire(text)).authorization.count == 1)
    }
}
