/// A number that this program assigns, and that is a key in its tables.
///
/// Outsiders cannot choose the numbers, so nobody can make them collide. Therefore they need no seeded hash, which
/// costs ten times as much. Speed matters here, because a call is looked up by its numbers about a hundred times.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The hash of the number. The standard library calls this function for keys with a hash of their own. With only
    /// `hash(into:)` it would always use the seeded hash.
    ///
    /// The table's seed is included, so that two tables have different orders. Otherwise filling one table from another
    /// would be slow.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
