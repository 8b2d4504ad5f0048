import Bytes
import Testing

@Suite("Base64 (RFC 4648 section 10)")
struct Base64Tests {
    @Test(arguments: [
        ("", "", ""), ("f", "Zg==", "Zg"), ("fo", "Zm8=", "Zm8"), ("foo", "Zm9v", "Zm9v"),
        ("foob", "Zm9vYg==", "Zm9vYg"),
        ("fooba", "Zm9vYmE=", "Zm9vYmE"), ("foobar", "Zm9vYmFy", "Zm9vYmFy"),
    ])
    func `the published texts come out and read back`(plain: String, standard: String, url: String) {
        #expect(Base64.standard.encode(Array(plain.utf8)) == Array(standard.utf8))
        #expect(Base64.url.encode(Array(plain.utf8)) == Array(url.utf8))
        #expect(Base64.standard.decode(Array(standard.utf8)) == Array(plain.utf8))
        #expect(Base64.url.decode(Array(url.utf8)) == Array(plain.utf8))
    }

    @Test func `the alphabets differ in two characters`() {
        #expect(Base64.standard.encode([0xfb, 0xff]) == Array("+/8=".utf8))
        #expect(Base64.url.encode([0xfb, 0xff]) == Array("-_8".utf8))
        #expect(Base64.url.decode(Array("+/8".utf8)) == nil)
        #expect(Base64.url.encode([255]) == Array("_w".utf8))
        #expect(Base64.url.encode([255, 239]) == Array("_-8".utf8))
    }

    @Test func `every byte survives`() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Base64.standard.decode(Base64.standard.encode(bytes)) == bytes)
        #expect(Base64.url.decode(Base64.url.encode(bytes)) == bytes)
    }

    @Test(arguments: ["Zg", "Zg=", "Zg===", "Zh==", "Z===", "=", "Zm9v\n", "Zm 9v", "Zg==Zg==", "Zm9é"])
    func `what no encoder writes is refused`(text: String) {
        #expect(Base64.standard.decode(Array(text.utf8)) == nil)
    }

    @Test(arguments: ["A", "AA=", "AB", "_x", "A A", "+/+/", "AAAAA", "_-9"])
    func `what no encoder for URLs writes is refused`(text: String) {
        #expect(Base64.url.decode(Array(text.utf8)) == nil)
    }
}
