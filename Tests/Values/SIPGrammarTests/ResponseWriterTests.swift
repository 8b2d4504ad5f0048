import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Writing responses")
struct ResponseWriterTests {
    private static let invite = """
        INVITE sip:bob@pn.test SIP/2.0
        v: SIP/2.0/UDP 192.0.2.1:5062 ;rport; branch=z9hG4bK1 , SIP/2.0/TCP 192.0.2.7;branch=z9hG4bK0
        Via:SIP/2.0/TLS client.test
        Timestamp: 54.2
        f: "A" <sip:alice@pn.test>;tag=1
        T : Bob
          <sip:bob@pn.test> \("")
        i: c1
        CSeq: 7 INVITE
        Max-Forwards: 70
        Contact: <sip:alice@192.0.2.1>
        Content-Length: 4

        body
        """

    private let source = Endpoint(IPAddress(v4: 0x0a00_0009), 40_000)

    @Test func `rows are repeated unchanged, and the topmost Via gets its additions`() throws {
        let invite = try request(Self.invite)
        let bytes = invite.response(
            .temporarilyUnavailable, toTag: ToTag(0xa0), viaAddition: invite.viaAddition(source: source),
            fields: [AddedField("Retry-After", ByteString("5"))])
        #expect(
            bytes.lines == """
                SIP/2.0 480 Temporarily Unavailable
                v: SIP/2.0/UDP 192.0.2.1:5062 ; branch=z9hG4bK1;received=10.0.0.9;rport=40000 , SIP/2.0/TCP 192.0.2.7;branch=z9hG4bK0
                Via:SIP/2.0/TLS client.test
                f: "A" <sip:alice@pn.test>;tag=1
                T : Bob
                  <sip:bob@pn.test>;tag=00000000000000a0 \("")
                i: c1
                CSeq: 7 INVITE
                Retry-After: 5
                Content-Length: 0


                """)
    }

    @Test func `100 repeats Timestamp and adds no tag`() throws {
        let bytes = try request(Self.invite).response(.trying)
        #expect(bytes.lines.contains("\nTimestamp: 54.2\n"))
        #expect(!bytes.lines.contains("bob@pn.test>;tag="))
        #expect(
            bytes.lines.hasPrefix("SIP/2.0 100 Trying\nv: SIP/2.0/UDP 192.0.2.1:5062 ;rport; branch=z9hG4bK1 , SIP"))
    }

    @Test func `a tag that To has already stays the only one`() throws {
        let text = Self.invite.replacing("<sip:bob@pn.test> ", with: "<sip:bob@pn.test>;tag=old")
        let bytes = try request(text).response(.ok, toTag: ToTag(0xbeef))
        #expect(bytes.lines.contains(";tag=old\n"))
        #expect(!bytes.lines.contains("beef"))
    }

    @Test func `of repeated single fields the first is answered`() throws {
        let text = Self.invite.replacing("Max-Forwards: 70", with: "From: <sip:mallory@pn.test>;tag=2")
        let message = MessageReader().read(wire(text).span, isStream: false)
        guard case .unusable(let unusable) = message, let answer = unusable.answer else {
            Issue.record("\(message)")
            return
        }
        let bytes = answer.frame.response(
            answer.status, toTag: ToTag(1), viaAddition: answer.frame.viaAddition(source: source))
        #expect(bytes.lines.contains(";received=10.0.0.9;rport=40000 ,"))
        #expect(!bytes.lines.contains("mallory"))
        #expect(bytes.lines.hasPrefix("SIP/2.0 400 Bad Request\n"))
    }

    // MARK: Via (RFC 3581, RFC 3261 section 18.2)

    private func options(via: String) throws -> SIPRequest {
        try request(
            """
            OPTIONS sip:pn.test SIP/2.0
            Via: \(via)
            From: <sip:alice@pn.test>;tag=1
            To: <sip:bob@pn.test>
            Call-ID: c1
            CSeq: 7 OPTIONS


            """)
    }

    @Test(
        arguments: [
            ("SIP/2.0/UDP 10.0.0.9:5060;branch=z", "", "10.0.0.9:5060"),
            ("SIP/2.0/UDP 10.0.0.9;branch=z", "", "10.0.0.9:5060"),
            ("SIP/2.0/UDP 10.0.0.9:5070;rport;branch=z", ";received=10.0.0.9;rport=40000", "10.0.0.9:40000"),
            ("SIP/2.0/UDP 10.0.0.8:5070;branch=z", ";received=10.0.0.9", "10.0.0.9:5070"),
            ("SIP/2.0/UDP phone.test;branch=z", ";received=10.0.0.9", "10.0.0.9:5060"),
            ("SIP/2.0/UDP phone.test;maddr=192.0.2.99;branch=z", ";received=10.0.0.9", "10.0.0.9:5060"),
            ("SIP/2.0/UDP [::1]:5061;branch=z;RPORT", ";received=10.0.0.9;rport=40000", "10.0.0.9:40000"),
        ])
    func `a response goes to the source of the request`(via: String, addition: String, target: String) throws {
        let options = try options(via: via)
        #expect(text(options.viaAddition(source: source)) == addition)
        #expect(options.responseEndpoint(source: source).description == target)
    }

    @Test func `an IPv6 source is written without brackets and compared with the host in them`() throws {
        let address = try #require(IPAddress("2001:db8::9"))
        let source = Endpoint(address, 5060)
        #expect(try options(via: "SIP/2.0/UDP [2001:DB8:0::9];branch=z").viaAddition(source: source) == .none)
        #expect(
            text(try options(via: "SIP/2.0/UDP h;branch=z").viaAddition(source: source)) == ";received=2001:db8::9")
    }

    @Test(
        arguments: [
            ("SIP/2.0/UDP h;rport;branch=z", "SIP/2.0/UDP h;branch=z;received=10.0.0.9;rport=40000"),
            ("SIP/2.0/UDP h;branch=z;rport", "SIP/2.0/UDP h;branch=z;received=10.0.0.9;rport=40000"),
            ("SIP/2.0/UDP h;branch=z; RPort = 9", "SIP/2.0/UDP h;branch=z;received=10.0.0.9;rport=40000"),
            ("SIP/2.0/UDP h;received=6.6.6.6;rport=5", "SIP/2.0/UDP h;received=10.0.0.9;rport=40000"),
            (
                "SIP/2.0/UDP h;x=\";rport\";rportx;rport",
                "SIP/2.0/UDP h;x=\";rport\";rportx;received=10.0.0.9;rport=40000"
            ),
        ])
    func `rport gets its value, and the client's value does not count`(via: String, expected: String) throws {
        let options = try options(via: via)
        let bytes = options.response(.ok, viaAddition: options.viaAddition(source: source))
        #expect(bytes.lines.contains("\nVia: \(expected)\n"))
        #expect(options.frame.viaAddition(source: source) == options.viaAddition(source: source))
    }

    private func text(_ addition: ViaAddition) -> String {
        String(decoding: [UInt8](capacity: 64) { $0.append(addition) }, as: UTF8.self)
    }
}
