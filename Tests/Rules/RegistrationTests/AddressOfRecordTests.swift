import Bytes
import Registration
import SIPGrammar
import Testing

@Suite("Address-of-record")
struct AddressOfRecordTests {
    @Test(arguments: [
        ("sip:bob@pn.test", "bob@pn.test"), ("sips:bob@PN.Test:5061;transport=tls", "bob@pn.test"),
        ("sip:%62ob@pn.test", "bob@pn.test"), ("sip:Bob@pn.test", "Bob@pn.test"),
        ("sip:bob:secret@pn.test", "bob@pn.test"), ("sip:+7%20495@pn.test?a=b", "+7 495@pn.test"),
    ])
    func `is the decoded user and the host in lower case`(uri: String, expected: String) throws {
        #expect(try AddressOfRecord(uriOf(uri))?.description == expected)
    }

    @Test(arguments: ["sip:pn.test", "tel:+15551234", "mailto:bob@pn.test"])
    func `needs a SIP URI with a user`(uri: String) throws {
        #expect(try AddressOfRecord(uriOf(uri)) == nil)
    }

    @Test func `users differ by case`() throws {
        #expect(try AddressOfRecord(uriOf("sip:Bob@pn.test")) != AddressOfRecord(uriOf("sip:bob@pn.test")))
    }
}

/// Reads a URI as the message reader does.
func uriOf(_ text: String) throws -> SIPURI {
    try readRequest(
        """
        REGISTER sip:pn.test SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@pn.test>;tag=1\r
        To: <\(text)>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n
        """
    ).to.uri
}
