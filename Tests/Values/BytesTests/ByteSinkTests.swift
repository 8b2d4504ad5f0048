import Bytes
import Testing

@Suite("Byte sinks")
struct ByteSinkTests {
    @Test(arguments: 0...40)
    func `text that does not fit at first is written again with more room`(capacity: Int) {
        var writes = 0
        let write = { (out: inout ByteSink) in
            writes += 1
            out.append("Expires: ")
            out.append(decimal: 3600)
            out.append(UInt8(ascii: ";"))
            out.append(ByteString("abcdef"), 2..<4)
            out.append(ByteString("!"))
            out.append(text: "ö")
            #expect(out.count == 19)
        }
        #expect([UInt8](capacity: capacity, write) == Array("Expires: 3600;cd!ö".utf8))
        #expect(ByteString(capacity: capacity, write) == ByteString("Expires: 3600;cd!ö"))
        #expect(writes == (capacity < 19 ? 4 : 2))
    }

    @Test func `an empty text gives no bytes`() {
        #expect([UInt8](capacity: 0) { _ in } == [])
        #expect(ByteString(capacity: 0) { _ in }.isEmpty)
    }

    @Test(arguments: [
        0, 9, 10, 99, 100, 65_535, UInt64(Int64.max), 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, UInt64.max,
    ])
    func `numbers have as many digits as they need`(number: UInt64) {
        #expect([UInt8](capacity: 4) { $0.append(decimal: number) } == Array("\(number)".utf8))
    }

    @Test func `numbers below zero have their sign, and bytes of numbers their order`() {
        #expect([UInt8](capacity: 4) { $0.append(decimal: Int8.min) } == Array("-128".utf8))
        #expect([UInt8](capacity: 4) { $0.append(big: 0x0102_0304, count: 3) } == [2, 3, 4])
        #expect([UInt8](capacity: 4) { $0.append(big: 0x0102_0304_0506_0708) } == [1, 2, 3, 4, 5, 6, 7, 8])
    }
}
