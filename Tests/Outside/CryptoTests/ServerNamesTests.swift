import Crypto
import Testing

@Suite("Ticket keys")
struct TicketKeysTests {
    @Test func `a server needs a certificate, and takes several`() throws {
        let first = try SelfSignedCertificate(hosts: ["a.example"])
        let second = try SelfSignedCertificate(hosts: ["b.example"])
        #expect(throws: TLSError.self) { _ = try TLSContext.server(identities: []) }
        let identities = [first, second].map { TLSIdentity(certificate: .bytes($0.certificate), key: .bytes($0.key)) }
        _ = try TLSContext.server(identities: identities, tickets: TicketKeys())
        let mixed = TLSIdentity(certificate: .bytes(first.certificate), key: .bytes(second.key))
        #expect(throws: TLSError.keyDoesNotMatchCertificate) { _ = try TLSContext.server(identities: [mixed]) }
    }
}
