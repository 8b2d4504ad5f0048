/// An id that this program assigns and uses as a key in its tables.
///
/// The program itself counts the ids, so nobody outside can cause hash collisions on purpose. Tables whose keys are
/// serial ids need no seeded hash, which would cost ten times as much. The hash must be fast, because the program looks
/// each call up by its ids about a hundred times.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The hash of the id. The standard library calls this function instead of `hash(into:)`, which would always use
    /// the seeded hash.
    ///
    /// The hash includes the table's seed, so that two tables have their entries in different orders. Without the seed,
    /// copying the entries of one table into another would be slow.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
