/// A hash with a secret key (SipHash-2-4). Without the key, nobody can find two texts with the same hash.
///
/// Swift's `Hasher` has another key in each process, so nodes of a cluster cannot exchange its hashes.
package struct SipHash {
    /// The secret key.
    package struct Key: Hashable, Sendable {
        package let low, high: UInt64

        package init(low: UInt64, high: UInt64) { (self.low, self.high) = (low, high) }

        /// Reads the key from the first sixteen bytes of a secret; a shorter secret is filled with zeros.
        package init(_ bytes: [UInt8]) {
            func word(_ start: Int) -> UInt64 {
                bytes.dropFirst(start).prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
            }
            self.init(low: word(0), high: word(8))
        }
    }

    private var v0, v1, v2, v3: UInt64

    package init(key: Key) {
        v0 = key.low ^ 0x736f_6d65_7073_6575
        v1 = key.high ^ 0x646f_7261_6e64_6f6d
        v2 = key.low ^ 0x6c79_6765_6e65_7261
        v3 = key.high ^ 0x7465_6462_7974_6573
    }

    package mutating func mix(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    /// Mixes bytes and their number.
    package mutating func mix(_ bytes: ByteString) {
        var hash = self
        bytes.withSpan { $0.forEachWord { hash.mix($0) } }
        hash.mix(UInt64(bytes.count))
        self = hash
    }

    /// The hash of everything that was mixed.
    package var value: UInt64 {
        var hash = self
        hash.v2 ^= 0xff
        for _ in 0..<4 { hash.round() }
        return hash.v0 ^ hash.v1 ^ hash.v2 ^ hash.v3
    }

    private mutating func round() {
        func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
        v0 &+= v1
        v1 = rotated(v1, 13) ^ v0
        v0 = rotated(v0, 32)
        v2 &+= v3
        v3 = rotated(v3, 16) ^ v2
        v0 &+= v3
        v3 = rotated(v3, 21) ^ v0
        v2 &+= v1
        v1 = rotated(v1, 17) ^ v2
        v2 = rotated(v2, 32)
    }
}
