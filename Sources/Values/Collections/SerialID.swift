/// A number that this program gives, each once, as a key of its tables.
///
/// Nobody outside chooses which numbers are given, so nobody can make them collide. They need no seeded hash, which costs
/// ten times as much, and a call is looked for by its numbers about a hundred times.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The standard library's own way in for keys that bring their hash; by `hash(into:)` alone it always uses the
    /// seeded one. The table's seed keeps the orders of two tables apart, which filling one from another needs.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
