import Crypto
import Testing

@Suite("GMAC")
struct GMACKeyTests {
    /// A class that wraps the key, so that `#expect` can call its methods.
    private final class Bench {
        private var key: GMACKey

        init(_ secret: [UInt8] = GMACKeyTests.secret) throws { key = try GMACKey(secret) }

        func seal(_ bytes: inout [UInt8], from start: Int) { key.seal(&bytes, from: start) }

        func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool { key.isSealed(bytes, range) }
    }

    private static let secret = (0..<32).map { UInt8($0) }

    private static func text(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7 + 3) } }

    /// The tags were made by `openssl mac` with GMAC, AES-256-GCM and the nonce a0a1…ab.
    @Test(arguments: [
        (1, "aba0e7d66cf63eb4a1ad773559d381a8"), (16, "c51a5b7c695b01f9ed6f282a8cc57b4e"),
        (45, "2caa7977ab21263c5993c7351a49ee8c"), (200, "a92bd2f273ee9f201500ce0c188ae5cc"),
    ])
    func `a seal is that of the standard`(count: Int, tag: String) throws {
        let key = try Bench()
        var digits = tag.makeIterator()
        var sealed = (0xa0...0xab).map { UInt8($0) }
        while let high = digits.next()?.hexDigitValue, let low = digits.next()?.hexDigitValue {
            sealed.append(UInt8(high << 4 | low))
        }
        sealed += Self.text(count)
        #expect(key.isSealed(sealed, GMACKey.sealCount..<sealed.count))
        for place in sealed.indices {
            var changed = sealed
            changed[place] ^= 1
            #expect(!key.isSealed(changed, GMACKey.sealCount..<changed.count))
        }
        #expect(!key.isSealed(sealed + [0], GMACKey.sealCount..<sealed.count + 1))
    }

    @Test func `another key does not accept a seal, and no nonce is used twice`() throws {
        let key = try Bench()
        let same = try Bench()
        let other = try Bench(Self.secret.reversed())
        var nonces = Set<[UInt8]>()
        for count in 1...300 {
            var bytes = [UInt8](repeating: 0, count: GMACKey.sealCount + 5) + Self.text(count)
            let start = bytes.count - count
            key.seal(&bytes, from: start)
            #expect(bytes.prefix(5) == [0, 0, 0, 0, 0] && bytes[start...] == Self.text(count)[...])
            #expect(same.isSealed(bytes, start..<bytes.count))
            #expect(!other.isSealed(bytes, start..<bytes.count))
            nonces.insert(Array(bytes[5..<17]))
        }
        #expect(nonces.count == 300)
        #expect(throws: CryptoError.self) { try Bench([1, 2, 3]) }
    }

    @Test func `places that are not there hold no seal`() throws {
        let key = try Bench()
        let bytes = [UInt8](repeating: 1, count: 64)
        for range in [27..<64, 28..<65, 64..<64, 0..<64] { #expect(!key.isSealed(bytes, range)) }
    }
}
