/// The Fowler-Noll-Vo hash, in steps of eight bytes. The FNV-1a hash is written into Vias, so it must be the same after
/// a restart. Swift's `Hasher` is not used, because it has another seed in each process.
package struct FNV1a {
    package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    package init() {}

    package mutating func mix(_ bytes: ByteString) {
        var hash = value
        bytes.withSpan { $0.forEachWord { hash = Self.step(hash, $0) } }
        value = Self.step(hash, UInt64(bytes.count))
    }

    package mutating func mix(_ number: UInt64) {
        value = Self.step(value, number)
    }

    /// Mixes eight bytes into the hash. The upper half is mixed into the lower half, because a multiplication never
    /// moves high bits to lower positions.
    private static func step(_ hash: UInt64, _ word: UInt64) -> UInt64 {
        let product = (hash ^ word) &* 0x100_0000_01b3
        return product ^ product >> 32
    }
}
