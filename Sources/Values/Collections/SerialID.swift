/// An id that the program assigns and uses as a key in its tables.
///
/// The program itself counts the ids, so no peer can choose ids whose hashes collide. Tables with serial ids as keys
/// therefore need no seeded hash, which would cost ten times as much time. The hash of a serial id must be fast,
/// because the program looks up ids about a hundred times for each call.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The hash of the serial id. The standard library uses `_rawHashValue(seed:)` instead of `hash(into:)`, which
    /// would always compute the seeded hash.
    ///
    /// The hash of a serial id includes the seed of the table, so that two tables have their entries in different
    /// orders. If two tables had the same order, copying the entries of one table into the other would be slow.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
