/// A value that most records lack, in its own allocation: a record without it needs only a pointer.
///
/// It has value semantics: a copy of the record has its own copy of it.
@usableFromInline
package struct BoxedOptional<Value> {
    /// Empty, or with one element.
    @usableFromInline var values: [Value] = []

    @inlinable
    package init() {}

    @inlinable package var value: Value? { values.first }

    /// Changes the value in place. If it is absent, it starts as `new`.
    @inlinable
    package mutating func change(orNew new: @autoclosure () -> Value, _ body: (inout Value) -> Void) {
        if values.isEmpty { values.append(new()) }
        body(&values[0])
    }
}

extension BoxedOptional: Equatable where Value: Equatable {}
extension BoxedOptional: Hashable where Value: Hashable {}
extension BoxedOptional: Sendable where Value: Sendable {}
