import Addressing
import Bytes
import Registration
import SIPGrammar
import TestSupport
import Testing
@testable import Waking

@Suite("Who has sent a call on before")
struct DiversionsTests {
    private func diversions(_ rows: String...) throws -> Diversions {
        let text = SIPText.invite(
            to: "bob", from: "103", at: MachineScene.pbx.remote, callID: "c", branch: "b",
            extra: rows.map { "Diversion: \($0)" })
        return Diversions(try #require(SIPText.readRequest(text)).frame)
    }

    @Test func `each value is found, in one row or in several, whatever a name says`() throws {
        let found = try diversions(
            "\"a, \\\"<b>\" <sip:bob@Example.NET>;reason=no-answer, <sip:eve@example.net;x=,y>;reason=unavailable",
            "sip:carl@example.net;reason=user-busy")
        #expect(found.count == 3)
        #expect(found.names(MachineScene.bob) && !found.comesBack(to: MachineScene.bob))
        let eve = AddressOfRecord(user: ByteString("eve"), host: ByteString("example.net"))
        #expect(found.names(eve) && found.comesBack(to: eve))
        #expect(!found.names(AddressOfRecord(user: ByteString("eve"), host: ByteString("example.org"))))
    }

    @Test func `a counter counts, and garbage does no harm`() throws {
        #expect(try diversions("<sip:bob@example.net>;counter=7").count == 7)
        #expect(try diversions("<sip:bob@example.net>;counter=999999999999").count == 1)
        #expect(try diversions("").count == 0 && diversions(",,,").count == 0)
        #expect(try diversions("\"", "<", "<sip:", "x").count == 4)
        let many = Array(repeating: "<sip:a@b>", count: 200).joined(separator: ",")
        #expect(try diversions(many).count == 200)
    }

    @Test func `its own field is read back, and escapes the user`() throws {
        let field = Diversions.field(for: MachineScene.bob)
        #expect(field.value == ByteString("<sip:bob@example.net>;reason=unavailable;counter=1"))
        #expect(try diversions(field.value.string).comesBack(to: MachineScene.bob))
        let odd = AddressOfRecord(user: ByteString("a>,\r\n<b"), host: ByteString("example.net"))
        let value = Diversions.field(for: odd).value.string
        #expect(value == "<sip:a%3E%2C%0D%0A%3Cb@example.net>;reason=unavailable;counter=1")
        #expect(try diversions(value).comesBack(to: odd))
    }
}
