import Bytes
import SIPGrammar
import Testing

@Suite struct ByteScanningTests {
    @Test func `a host name ends before the first byte that it cannot contain`() {
        for length in [1, 15, 16, 17, 40] {
            for byte in UInt8.min ... .max {
                var text = [UInt8](repeating: UInt8(ascii: "a"), count: length)
                text[length - 1] = byte
                let end = text.span.hostEnd(from: 0, to: length)
                #expect(end == (byte.isHostByte ? length : length - 1), "\(byte) behind \(length - 1)")
            }
        }
    }
}
