import Bytes
import Testing

@Suite("Hexadecimal digits")
struct HexTests {
    @Test func `every byte is written as two digits and read again`() {
        let bytes = Array(UInt8.min...UInt8.max)
        let text = Hex.encode(bytes)
        #expect(text.starts(with: "0001".utf8) && text.suffix(4).elementsEqual("feff".utf8))
        #expect(text.count == 512 && Hex.decode(text) == bytes)
        #expect(Hex.decode(ByteString(text)) == bytes)
    }

    @Test func `an empty text gives no bytes`() {
        #expect(Hex.encode([UInt8]()).isEmpty)
        #expect(Hex.decode(ByteString.empty) == [])
    }

    @Test(arguments: ["0", "0g", "0A", "A0", "00 ", "0x00", "é"])
    func `only pairs of lower-case digits are read`(text: String) {
        #expect(Hex.decode(ByteString(text)) == nil)
    }
}
