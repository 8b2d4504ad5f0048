/// An optional value for structs that rarely have the value. A struct without the value needs only a pointer, and a
/// struct with the value an allocation.
///
/// A copy of the struct has its own copy of the value.
@usableFromInline
package struct BoxedOptional<Value> {
    /// An array of the value, or an empty array.
    @usableFromInline var values: [Value] = []

    @inlinable
    package init() {}

    @inlinable package var value: Value? { values.first }

    /// Changes the value in place, or first stores `new` if no value exists.
    @inlinable
    package mutating func change(orNew new: @autoclosure () -> Value, _ body: (inout Value) -> Void) {
        if values.isEmpty { values.append(new()) }
        body(&values[0])
    }
}

extension BoxedOptional: Equatable where Value: Equatable {}
extension BoxedOptional: Hashable where Value: Hashable {}
extension BoxedOptional: Sendable where Value: Sendable {}
