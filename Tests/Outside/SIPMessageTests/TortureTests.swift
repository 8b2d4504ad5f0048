import Addressing
import Bytes
import Foundation
import SIPGrammar
import SIPMessage
import Testing

@Suite("Torture messages of RFC 4475 and RFC 5118")
struct TortureTests {
    @Test func `all 49 are here, and one variant`() {
        #expect(TortureMessage.all.count == 50)
        #expect(Set(TortureMessage.all.map(\.name)).count == 50)
    }

    @Test func `all 12 of IPv6 are here`() {
        #expect(Set(TortureMessage.ipv6.map(\.name)).count == 12)
    }

    @Test(arguments: TortureMessage.all + TortureMessage.ipv6)
    func `each message is accepted, answered or dropped as expected`(message: TortureMessage) {
        switch (read(message.bytes), message.expected) {
        case (.request, .request), (.response, .response): break
        case (.unusable(let unusable), .answered(let status)): #expect(unusable.answer?.status.code == status)
        case (.unusable(let unusable), .dropped): #expect(unusable.answer == nil)
        case (let found, let expected): Issue.record("\(expected) expected, found \(found)")
        }
    }

    @Test(arguments: (TortureMessage.all + TortureMessage.ipv6).filter { $0.expected == .request })
    func `accepted messages are forwarded with their unknown parts unchanged`(message: TortureMessage) throws {
        let received = try request(message.bytes)
        var edits = RequestEdits(
            requestURI: received.uri.text, via: ByteString("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKx"), maxForwards: 9)
        edits.recordRoutes = [ByteString("<sip:10.0.0.1;lr>")]
        let sent = try request(received.forwarded(edits).bytes)
        #expect(sent.callID == received.callID)
        #expect(sent.from.tag == received.from.tag)
        #expect(sent.frame.firstValue(of: .to) == received.frame.firstValue(of: .to))
        #expect(sent.frame.body == received.frame.body)
        #expect(sent.maxForwards == 9)
        #expect(sent.via.host == "10.0.0.1")
        #expect(sent.frame.values(of: .via).dropFirst() == received.frame.values(of: .via)[...])
        let unknown = { (frame: MessageFrame) in frame.fields.filter { $0.name == .other }.map { frame.bytes[$0.row] } }
        #expect(unknown(sent.frame) == unknown(received.frame))
    }

    private func message(_ name: String) throws -> SIPRequest {
        try request(try #require(TortureMessage.named(name)).bytes)
    }

    @Test func `wsinv is read through its white space and folds`() throws {
        let invite = try message("wsinv")
        #expect(invite.uri.parameters.contains("unknownparam"))
        #expect(invite.to.tag == "1918181833n")
        #expect(invite.from.tag == "98asjd8")
        #expect(invite.from.displayName?.unquoted() == #"J Rosenberg \""#)
        #expect(invite.maxForwards == 68)
        #expect(invite.cseq == CSeq(number: 9, method: .invite))
        #expect(invite.via.transport == "UDP")
        #expect(invite.via.host == "192.0.2.2")
        #expect(invite.via.branch == "390skdjuw")
        #expect(invite.frame.values(of: .via).count == 3)
        #expect(invite.routes.first?.uri.parameters.value(of: "unknownwith") == "value")
        #expect(invite.frame.body.count == 150)
    }

    @Test func `intmeth keeps its odd method, user and password`() throws {
        let odd = try message("intmeth-printable")
        #expect(odd.method == .other(ByteString("!interesting-Method0123456789_*+`.%indeed'~")))
        #expect(odd.uri.user == "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*")
        #expect(odd.uri.password == "&it+has=1,weird!*pas$wo~d_too.(doesn't-it)")
        #expect(odd.uri.headers == nil)
        #expect(odd.from.displayName == "token1~` token2'+_ token3*%!.-")
        #expect(odd.from.parameters.value(of: "fromparam''~+*_!.-%") == "\"работающий\"")
        #expect(odd.callID == #"intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{"#)
    }

    @Test func `escapes are kept unchanged`() throws {
        let invite = try message("esc01")
        #expect(invite.uri.user == "sips%3Auser%40example.com")
        #expect(invite.to.uri.user?.percentDecoded() == "user")
        let register = try message("escnull")
        #expect(register.contacts.map { $0.uri.user?.percentDecoded().count } == [1, 2])
        #expect(try message("esc02").method == .other(ByteString("RE%47IST%45R")))
        #expect(try message("semiuri").uri.user == "user;par=u%40example.net")
        #expect(try message("semiuri").uri.parameters.text.isEmpty)
    }

    @Test func `a second request in the datagram is no part of the first`() throws {
        let register = try message("dblreq")
        #expect(register.frame.body.isEmpty)
        #expect(register.frame.bytes.string.hasSuffix("Content-Length: 0\r\n\r\n"))
    }

    @Test func `longreq keeps all 34 Via values apart`() throws {
        let invite = try message("longreq")
        #expect(invite.frame.values(of: .via).count == 34)
        #expect(invite.via.host == "sip33.example.com")
        #expect(invite.to.uri.port == 6000)
    }

    @Test func `schemes other than SIP are recognized`() throws {
        #expect(try message("unkscm").uri.scheme == .other)
        #expect(try message("novelsc").uri.scheme == .other)
        let register = try message("unksm2")
        #expect(register.to.uri.scheme == .other)
        #expect(register.from.tag == "3234233")
        #expect(register.contacts.first?.uri.text == "name:John_Smith")
    }

    @Test func `parameters belong to the field without brackets, to the URI inside`() throws {
        let outside = try #require(try message("cparam01").contacts.first)
        #expect(outside.parameters.contains("unknownparam"))
        #expect(outside.uri.parameters.text.isEmpty)
        let inside = try #require(try message("cparam02").contacts.first)
        #expect(inside.uri.parameters.contains("unknownparam"))
        #expect(inside.parameters.text.isEmpty)
    }

    @Test func `headers of a URI stay in the URI`() throws {
        let invite = try message("escruri")
        #expect(invite.uri.headers == "Route=%3Csip:example.com%3E")
        #expect(invite.routes.isEmpty)
        let contact = try #require(try message("regescrt").contacts.first)
        #expect(contact.uri.headers == "Route=%3Csip:sip.example.com%3E")
        #expect(contact.uri.host == "example.com")
    }

    @Test func `an unknown scheme is no credentials, Max-Forwards may be 0, a branch may be missing`() throws {
        #expect(try message("regaut01").authorization.isEmpty)
        #expect(try message("zeromf").maxForwards == 0)
        #expect(try message("inv2543").via.branch == nil)
        #expect(try message("badbranch").via.branch == "z9hG4bK")
    }

    @Test func `responses keep their reason phrase and their Max-Forwards`() throws {
        let bcast = try response(try #require(TortureMessage.named("bcast")).bytes)
        #expect(bcast.viaCount == 2)
        let unreason = try response(try #require(TortureMessage.named("unreason")).bytes)
        #expect(unreason.status == 200)
        #expect(
            unreason.frame.bytes.string.hasPrefix("SIP/2.0 200 = 2**3 * 5**2 но сто девяносто девять - простое\r\n"))
        #expect(try response(try #require(TortureMessage.named("noreason")).bytes).status == 100)
    }

    // MARK: RFC 5118

    @Test func `the port follows the brackets, and the address is between them`() throws {
        let ambiguous = try message("port-ambiguous")
        #expect(ambiguous.uri.host == "[2001:db8::10:5070]")
        #expect(ambiguous.uri.port == nil)
        let clear = try message("port-unambiguous")
        #expect(clear.uri.host == "[2001:db8::10]")
        #expect(clear.uri.port == 5070)
        #expect(try message("ipv6-good").contacts.first?.uri.host == "[2001:db8::1]")
    }

    @Test(arguments: ["via-received-param-with-delim", "via-received-param-no-delim"])
    func `received is read with brackets and without, and written without`(name: String) throws {
        let received = try message(name)
        #expect(received.via.host == "[2001:db8::9:1]")
        var edits = RequestEdits(
            requestURI: received.uri.text, via: ByteString("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKx"), maxForwards: 9)
        let source = Endpoint(try #require(IPAddress("2001:db8::9:254")), 5060)
        edits.topViaAddition = received.viaAddition(source: source)
        let via = try #require(request(received.forwarded(edits).bytes).frame.values(of: .via).last)
        #expect(
            via.string.components(separatedBy: ";").filter { $0.hasPrefix("received") } == ["received=2001:db8::9:254"])
    }

    @Test func `Via fields may have addresses of both families, and only the first one counts`() throws {
        let bye = try message("mult-ip-in-header")
        #expect(bye.via.host == "[2001:db8::9:1]")
        #expect(bye.via.port == 6050)
        #expect(bye.frame.values(of: .via).count == 3)
    }

    @Test func `bodies with addresses of both families are forwarded unchanged`() throws {
        #expect(try message("ipv6-in-sdp").frame.body.string.contains("c=IN IP6 2001:db8::20"))
        let both = try message("mult-ip-in-sdp").frame.body.string
        #expect(both.contains("c=IN IP4 192.0.2.1") && both.contains("c=IN IP6 2001:db8::1"))
    }

    @Test func `an IPv4 address in the form of IPv6 is read, in Via and in Contact`() throws {
        let invite = try message("ipv4-mapped-ipv6")
        #expect(invite.via.host == "[::ffff:192.0.2.10]")
        #expect(invite.via.port == 19823)
        #expect(invite.frame.firstValue(of: .contact)?.string.hasSuffix("<sip:ted@[::ffff:192.0.2.2]>") == true)
    }

    @Test func `the colon too many of RFC 3261's grammar is tolerated`() throws {
        #expect(try message("ipv6-bug-abnf-3-colons").uri.host == "[2001:db8:::192.0.2.1]")
        #expect(try message("ipv6-correct-abnf-2-colons").uri.host == "[2001:db8::192.0.2.1]")
    }
}
