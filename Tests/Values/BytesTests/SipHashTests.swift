import Bytes
import Testing

@Suite struct `Hashes with a secret key` {
    private let key = SipHash.Key(Array(0..<16))

    @Test func `the hash is SipHash-2-4, as its paper shows`() {
        // The paper hashes the bytes 0 to 14. Its last word has the number of bytes in the highest byte.
        var hash = SipHash(key: key)
        hash.mix(0x0706_0504_0302_0100)
        hash.mix(0x0f0e_0d0c_0b0a_0908)
        #expect(hash.value == 0xa129_ca61_49be_45e5)
    }

    @Test func `other bytes, other cuts and other keys give other hashes`() {
        func hash(_ texts: [String], _ key: SipHash.Key) -> UInt64 {
            var hash = SipHash(key: key)
            for text in texts { hash.mix(ByteString(text)) }
            return hash.value
        }
        let other = SipHash.Key(low: key.low, high: key.high &+ 1)
        let hashes = [
            hash(["bob", "example.net"], key), hash(["bobe", "xample.net"], key), hash(["bob", "example.org"], key),
            hash(["bob", "example.net"], other), hash(["", "bobexample.net"], key),
        ]
        #expect(Set(hashes).count == hashes.count)
        #expect(hash(["bob", "example.net"], key) == hashes[0])
    }
}
