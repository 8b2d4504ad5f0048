/// Has a value that stands for none.
@usableFromInline
package protocol Absentable: Equatable {
    static var absent: Self { get }
}

/// A value that may be absent, in no more room than the value: of records that are kept by the hundred thousand.
@usableFromInline @propertyWrapper
package struct Packed<Value: Absentable> {
    @usableFromInline var value: Value

    @inlinable
    package init(wrappedValue: Value? = nil) { value = wrappedValue ?? .absent }

    @inlinable package var wrappedValue: Value? {
        get { value == .absent ? nil : value }
        set { value = newValue ?? .absent }
    }
}

extension Packed: Equatable {}
extension Packed: Hashable where Value: Hashable {}
extension Packed: Sendable where Value: Sendable {}

/// The smallest number stands for none.
extension Int32: Absentable { @inlinable package static var absent: Int32 { .min } }
extension Int: Absentable { @inlinable package static var absent: Int { .min } }
