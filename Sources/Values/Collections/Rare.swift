/// A value that most records have not, in memory of its own: a record without it has room for a pointer alone.
///
/// It is a value as any other: a copy of the record has a copy of it.
@usableFromInline
package struct Rare<Value> {
    /// Empty, or with one element.
    @usableFromInline var values: [Value] = []

    @inlinable
    package init() {}

    @inlinable package var value: Value? { values.first }

    /// Changes the value in place. Where there is none, it begins with `new`.
    @inlinable
    package mutating func change(orNew new: @autoclosure () -> Value, _ body: (inout Value) -> Void) {
        if values.isEmpty { values.append(new()) }
        body(&values[0])
    }
}

extension Rare: Equatable where Value: Equatable {}
extension Rare: Hashable where Value: Hashable {}
extension Rare: Sendable where Value: Sendable {}
