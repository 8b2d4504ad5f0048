import SIPGrammar
import Testing

@Suite("Bytes of a message")
struct ByteStringTests {
    @Test func `percent decoding keeps NUL and leaves broken escapes alone`() {
        #expect(ByteString("a%00b%3D%zz%4").percentDecoded().array == Array("a\u{0}b=%zz%4".utf8))
    }
}
