/// An id that the program counts up, and uses as a key in its tables.
///
/// No peer can choose serial ids so that their hashes collide, so the hash needs no seed. A hash with a seed would take
/// ten times as much time. The hash must be fast, because the program looks up ids about a hundred times for each call.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The hash of the id. `_rawHashValue(seed:)` replaces `hash(into:)`, which would always compute the seeded hash.
    ///
    /// The table's seed is part of the hash, because copying entries between tables of the same order is slow.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
