/// A value that most records do not have. It is stored in an allocation of its own, so that a record without it needs
/// only a pointer.
///
/// It has value semantics: a copy of a record has its own copy of the value.
@usableFromInline
package struct BoxedOptional<Value> {
    /// One element if the value exists; otherwise empty.
    @usableFromInline var values: [Value] = []

    @inlinable
    package init() {}

    @inlinable package var value: Value? { values.first }

    /// Changes the value in place. If the value is absent, it is first set to `new`.
    @inlinable
    package mutating func change(orNew new: @autoclosure () -> Value, _ body: (inout Value) -> Void) {
        if values.isEmpty { values.append(new()) }
        body(&values[0])
    }
}

extension BoxedOptional: Equatable where Value: Equatable {}
extension BoxedOptional: Hashable where Value: Hashable {}
extension BoxedOptional: Sendable where Value: Sendable {}
