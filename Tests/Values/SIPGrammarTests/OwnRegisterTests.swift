import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("REGISTERs of the daemon")
struct OwnRegisterTests {
    private func register(user: String, contact: String?, expires: UInt32 = 60, path: String? = nil) -> OwnRegister {
        OwnRegister(
            domain: ByteString("pbx.test"), user: ByteString(user),
            via: ByteString("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport"), callID: ByteString("CALL"), cseq: 7,
            tag: ByteString("t"), contact: contact.map { ByteString($0) }, expires: expires,
            path: path.map { ByteString($0) })
    }

    private func read(_ register: OwnRegister) throws -> SIPRequest {
        guard case .request(let request) = MessageReader().read(register.bytes.span, isStream: true) else {
            Issue.record("unreadable: \(String(decoding: register.bytes, as: UTF8.self))")
            throw Unreadable()
        }
        return request
    }

    private struct Unreadable: Error {}

    @Test func `a REGISTER has what a registrar needs`() throws {
        let request = try read(register(user: "bob", contact: "sip:TOKEN@192.0.2.1:5060", path: "sip:192.0.2.1;lr"))
        #expect(request.method == .register)
        #expect(request.uri.text == "sip:pbx.test")
        #expect(request.to.uri.text == "sip:bob@pbx.test")
        #expect(request.from.uri.text == "sip:bob@pbx.test")
        #expect(request.from.tag?.string == "t")
        #expect(request.to.tag == nil)
        #expect(request.cseq.number == 7)
        #expect(request.expires == 60)
        #expect(request.contacts.first?.uri.text.string == "sip:TOKEN@192.0.2.1:5060")
        #expect(request.contacts.first?.parameters.value(of: "expires")?.string == "60")
        #expect(request.path.first?.uri.text.string == "sip:192.0.2.1;lr")
        #expect(request.frame.firstValue(of: .supported)?.string == "path")
    }

    @Test func `a query has neither Contact nor Expires nor Path`() throws {
        let request = try read(register(user: "bob", contact: nil, path: "sip:192.0.2.1;lr"))
        #expect(request.contacts.count == 0)
        #expect(request.expires == nil)
        #expect(request.path.isEmpty)
    }

    @Test(arguments: ["a b", "\r\nVia: x", "ü", "a@b", "<>\"", "%41", "a;b=c", "a?b", "a:b"])
    func `any name is escaped, and is the same name again`(name: String) throws {
        let request = try read(register(user: name, contact: "sip:T@192.0.2.1"))
        #expect(request.to.uri.user?.percentDecoded().string == name)
        #expect(request.to.uri.host == "pbx.test")
        #expect(request.frame.count(of: .via) == 1)
    }

    private func response(_ rows: String..., status: Int = 200) throws -> RegisterResponse {
        let head =
            "SIP/2.0 \(status) X\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n"
            + "To: <sip:a@b>;tag=2\r\nCall-ID: c\r\nCSeq: 7 REGISTER\r\n"
        let text = head + rows.map { $0 + "\r\n" }.joined() + "Content-Length: 0\r\n\r\n"
        guard case .response(let response) = MessageReader().read(Array(text.utf8).span, isStream: true) else {
            Issue.record("unreadable: \(text)")
            throw Unreadable()
        }
        return RegisterResponse(response)
    }

    @Test func `the contacts of a response are read in every form`() throws {
        let read = try response(
            "Contact: <sip:a@1.2.3.4>;expires=10, \"x, y\" <sip:b@h;p=1>;q=0.1;expires=\"20\"", "m: sip:c@h;expires=30",
            "Contact: *", "Contact: <tel:+1>;expires=5", "Contact: <sip:d@h>", "Expires: 99", "Min-Expires: 7",
            "Retry-After: 18 (maintenance);duration=3600")
        #expect(read.contacts.map(\.user.string) == ["a", "b", "c", "+1", "d"])
        #expect(read.contacts.map(\.expires) == [10, 20, 30, 5, nil])
        #expect(read.expires == 99)
        #expect(read.minExpires == 7)
        #expect(read.retryAfter == 18)
    }

    @Test func `numbers that are too large or no numbers do no harm`() throws {
        let read = try response(
            "Contact: <sip:a@b>;expires=99999999999999999999999", "Contact: <sip:b@b>;expires=-1",
            "Contact: <sip:c@b>;expires=", "Expires: x", "Retry-After: 4294967296")
        #expect(read.contacts.map(\.expires) == [.max, nil, nil])
        #expect(read.expires == nil)
        #expect(read.retryAfter == .max)
    }

    @Test func `no response makes the daemon read more than eight challenges`() throws {
        let rows = (0..<20).map { _ in "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"" }.joined(separator: "\r\n")
        #expect(try response(rows, status: 401).challenges.count == 8)
    }

    @Test func `challenges come from the field of the status`() throws {
        let rows = [
            "WWW-Authenticate: Digest realm=\"w\", nonce=\"n\"", "Proxy-Authenticate: Digest realm=\"p\", nonce=\"n\"",
        ].joined(separator: "\r\n")
        #expect(try response(rows, status: 401).challenges.map(\.realm.string) == ["w"])
        #expect(try response(rows, status: 407).challenges.map(\.realm.string) == ["p"])
    }
}
