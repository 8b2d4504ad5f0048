import Addressing
import Benchmarks
import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Messages of the load")
struct MessageTemplateTests {
    private func text(_ template: String, user: Int = 7, cseq: Int = 12, branch: UInt64 = 0xbeef) -> String {
        String(decoding: MessageTemplate(template).message(user: user, cseq: cseq, branch: branch), as: UTF8.self)
    }

    @Test(arguments: [
        ("u%uuu@x", "u0007@x"), ("%cc", "012"), ("z%bbbbb;", "z00beef;"), ("%uu%cc", "007012"), ("100%", "100%"),
        ("%u", "%u"), ("%ux", "%ux"), ("", ""),
    ])
    func `marks become numbers of the same width`(template: String, expected: String) {
        #expect(text(template) == expected)
    }

    @Test func `a number too long for its mark loses its first digits`() {
        #expect(text("%uu", user: 12_345) == "345")
    }

    @Test func `the messages are what a reader takes, and a real phone's length`() throws {
        let place = Endpoint(.loopbackV4, 40_000)
        let register = MessageTexts.register(from: place).message(user: 42, cseq: 3, branch: 9)
        let invite = MessageTexts.invite(from: place).message(user: 42, branch: 9)
        guard case .request(let first) = MessageReader().read(register.span, isStream: false),
            case .request(let second) = MessageReader().read(invite.span, isStream: false)
        else {
            Issue.record("unreadable")
            return
        }
        #expect(first.contacts.count == 1 && first.cseq.number == 10_000_003)
        #expect(second.callID.string == MessageTexts.callID(of: 42))
        #expect(second.frame.bytes.count == invite.count, "Content-Length covers the whole body")
        #expect((850...1000).contains(register.count))
        #expect((1000...1300).contains(invite.count))
    }

    @Test(
        arguments: [
            ("a=12;b=34", "b=", 10, 34), ("branch=z9hG4bK00ff;x", "z9hG4bK", 16, 255), ("b=", "b=", 10, nil),
            ("b=x", "b=", 10, nil),
            ("", "b=", 10, nil), ("b", "b=", 10, nil), ("xb=5", "b=", 10, 5),
        ] as [(String, String, UInt64, UInt64?)])
    func `a number is found behind its mark`(text: String, mark: String, base: UInt64, expected: UInt64?) {
        #expect(ByteSearch.number(after: Array(mark.utf8), base: base, in: Array(text.utf8).span) == expected)
    }

    @Test func `an arrival is told apart at first sight`() {
        func arrival(_ text: String) -> Arrival { Arrival(Array(text.utf8).span) }
        #expect(
            arrival("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK00000000001a\r\n")
                == .response(status: 200, branch: 26))
        #expect(arrival("INVITE sip:u@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n") == .request)
        #expect(arrival("SIP/2.0 200 OK\r\n") == .unknown)
        #expect(arrival("") == .unknown)
    }
}
