import Bytes
import Testing

@Suite("Base64 (RFC 4648 section 10)")
struct Base64Tests {
    @Test(arguments: [
        ("", "", ""), ("f", "Zg==", "Zg"), ("fo", "Zm8=", "Zm8"), ("foo", "Zm9v", "Zm9v"),
        ("foob", "Zm9vYg==", "Zm9vYg"),
        ("fooba", "Zm9vYmE=", "Zm9vYmE"), ("foobar", "Zm9vYmFy", "Zm9vYmFy"),
    ])
    func `the published texts are encoded and decoded`(plain: String, standard: String, url: String) {
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

    @Test func `texts of every length survive, and a changed character gives another text or none`() {
        for length in 0..<20 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 * 37 + length) }
            let text = Base64.url.encode(bytes)
            #expect(Base64.url.decode(text) == bytes)
            for place in text.indices {
                for byte in UInt8.min ... .max where byte != text[place] {
                    var other = text
                    other[place] = byte
                    let read = Base64.url.decode(other)
                    #expect(read != bytes && (read == nil || Base64.url.encode(read ?? []) == other))
                }
            }
        }
    }

    @Test func `every byte survives`() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Base64.standard.decode(Base64.standard.encode(bytes)) == bytes)
        #expect(Base64.url.decode(Base64.url.encode(bytes)) == bytes)
    }

    @Test(arguments: ["Zg", "Zg=", "Zg===", "Zh==", "Z===", "=", "Zm9v\n", "Zm 9v", "Zg==Zg==", "Zm9é"])
    func `text that no encoder writes is refused`(text: String) {
        #expect(Base64.standard.decode(Array(text.utf8)) == nil)
    }

    @Test(arguments: ["A", "AA=", "AB", "_x", "A A", "+/+/", "AAAAA", "_-9"])
    func `text that no encoder for URLs writes is refused`(text: String) {
        #expect(Base64.url.decode(Array(text.utf8)) == nil)
    }
}
