/// An optional value for structs that rarely have the value. The optional value is stored in an allocation of its own,
/// so that a struct without the value needs only a pointer.
///
/// ``BoxedOptional`` has value semantics: a copy of the struct has its own copy of the value.
@usableFromInline
package struct BoxedOptional<Value> {
    /// An array with the value, or an empty array if there is no value.
    @usableFromInline var values: [Value] = []

    @inlinable
    package init() {}

    @inlinable package var value: Value? { values.first }

    /// Changes the value in place. If no value is stored, the function first stores `new`.
    @inlinable
    package mutating func change(orNew new: @autoclosure () -> Value, _ body: (inout Value) -> Void) {
        if values.isEmpty { values.append(new()) }
        body(&values[0])
    }
}

extension BoxedOptional: Equatable where Value: Equatable {}
extension BoxedOptional: Hashable where Value: Hashable {}
extension BoxedOptional: Sendable where Value: Sendable {}
