/// A number that this program assigns once, as a key of its tables.
///
/// No outsider can choose the numbers, so nobody can make them collide. They need no seeded hash, which costs ten times
/// as much; a call is looked up by its numbers about a hundred times.
package protocol SerialID: Hashable {
    var rawValue: UInt64 { get }
}

extension SerialID {
    /// The standard library's hook for keys with their own hash. With only `hash(into:)` it always uses the seeded one.
    /// The table's seed makes the orders of two tables differ, which is required for filling one from another.
    @inlinable
    package func _rawHashValue(seed: Int) -> Int {
        let product = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: product ^ product &>> 32)
    }

    @inlinable
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}
