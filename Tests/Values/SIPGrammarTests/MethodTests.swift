import Bytes
import SIPGrammar
import Testing

@Suite struct MethodTests {
    @Test func `methods differ by case`() {
        #expect(Method(ByteString("INVITE")) == .invite)
        #expect(Method(ByteString("Invite")) == .other(ByteString("Invite")))
        for text in ["REGISTER", "PUBLISH", "X-1"] {
            var bytes: [UInt8] = []
            Method(ByteString(text)).append(to: &bytes)
            #expect(bytes.lines == text)
            #expect([UInt8](capacity: 8) { Method(ByteString(text)).append(to: &$0) } == bytes)
        }
    }
}
