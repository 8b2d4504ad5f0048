import Addressing
import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("REGISTERs at a glance")
struct RegisterGlanceTests {
    private static let rows = [
        "REGISTER sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bK1;rport", "Max-Forwards: 70",
        "From: <sip:bob@example.net>;tag=f", "To: <sip:bob@example.net>", "Call-ID: c1@host", "CSeq: 7 REGISTER",
        "Contact: <sip:bob@10.1.1.1:5070>", "Content-Length: 0",
    ]

    private func text(_ change: (inout [String]) -> Void = { _ in }) -> [UInt8] {
        var rows = Self.rows
        change(&rows)
        return Array((rows.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    private func glance(_ bytes: [UInt8]) -> RegisterGlance? { MessageReader().glance(at: bytes.span) }

    private let source = Endpoint(IPAddress(v4: 0xc000_0205), 40_000)

    @Test func `the refusal repeats the mandatory fields of a response, and goes to its source`() throws {
        let bytes = text()
        let glance = try #require(self.glance(bytes))
        let user = glance.uri(in: bytes.span)?.user
        #expect(user == ByteString("bob"))
        let answer = glance.refusal(in: bytes.span, retryAfter: 17, tag: 0xab, source: source)
        #expect(
            String(decoding: answer, as: UTF8.self)
                == [
                    "SIP/2.0 503 Service Unavailable",
                    "Via: SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bK1;rport=40000;received=192.0.2.5",
                    "From: <sip:bob@example.net>;tag=f", "To: <sip:bob@example.net>;tag=ab", "Call-ID: c1@host",
                    "CSeq: 7 REGISTER", "Retry-After: 17", "Content-Length: 0", "", "",
                ].joined(separator: "\r\n"))
    }

    @Test func `short names and other cases are the same`() {
        let bytes = text { rows in
            rows[1] = "v:SIP/2.0/UDP h;RPORT;branch=z9hG4bK1"
            rows[3] = "F: <sip:bob@example.net>;tag=f"
            rows[4] = "t: <sip:bob@example.net>"
            rows[5] = "I: c1"
        }
        #expect(glance(bytes) != nil)
    }

    @Test(arguments: [
        (1, "Via: SIP/2.0/UDP h;branch=z9hG4bK1"), (1, "Via: SIP/2.0/UDP h;rport, SIP/2.0/UDP i;rport"),
        (1, "Via: SIP/2.0/UDP h;rport=7"), (2, "Via: SIP/2.0/UDP h;rport"), (2, " folded: row"), (2, "\tfolded"),
        (4, "To: <sip:bob@example.net>;tag=x"), (4, "To: \"<\" <sip:bob@example.net>"), (4, "To: sip:bob@example.net"),
        (4, "X: y"), (5, "X: y"), (6, "X: y"), (2, "To: <sip:carl@example.net>"), (2, "i: c2"), (2, "X: \u{1}y"),
        (0, "INVITE sip:bob@example.net SIP/2.0"),
    ])
    func `unusual requests are left to the complete reader`(_ row: Int, _ words: String) {
        #expect(glance(text { $0[row] = words }) == nil)
    }

    @Test func `no cut of a message, and no row that ends early, is read beyond its end`() {
        let bytes = text()
        for end in 0..<bytes.count - 2 { #expect(glance(Array(bytes[..<end])) == nil) }
    }
}
