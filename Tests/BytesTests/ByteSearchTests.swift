import Bytes
import Testing

@Suite("Search in bytes")
struct ByteSearchTests {
    @Test func `letters are the same in either case, and nothing else is`() {
        let lowercase: StaticString = "abcdefghijklm-nopqrstuvwxyz0189"
        let text = Array("ABCDEFGHIJKLM-NOPQRSTUVWXYZ0189".utf8)
        for place in text.indices {
            for byte in UInt8.min ... .max {
                var other = text
                other[place] = byte
                let isSame = byte.asciiLowercased == text[place].asciiLowercased
                #expect(ByteString(other).equalsIgnoringCase(lowercase) == isSame, "\(byte) at \(place)")
            }
        }
        #expect(!ByteString(text.dropLast()).equalsIgnoringCase(lowercase))
    }

    @Test func `a byte is found where it stands first`() {
        for length in 1..<40 {
            for place in 0..<length {
                // The byte beside it in the table of bytes is not taken for it.
                var text = [UInt8](repeating: UInt8(ascii: ":") + 1, count: length)
                text[place] = UInt8(ascii: ":")
                text[length - 1] = UInt8(ascii: ":")
                #expect(ByteString(text).firstIndex(of: UInt8(ascii: ":")) == place)
                #expect(ByteString(text)[0..<place].firstIndex(of: UInt8(ascii: ":")) == nil)
            }
        }
    }
}
