/// A type that reserves one of its values for "absent".
@usableFromInline
package protocol Absentable: Equatable {
    static var absent: Self { get }
}

/// An optional that needs no more memory than the value, for structs of which the daemon stores hundreds of thousands.
@usableFromInline @propertyWrapper
package struct PackedOptional<Value: Absentable> {
    @usableFromInline var value: Value

    @inlinable
    package init(wrappedValue: Value? = nil) { value = wrappedValue ?? .absent }

    @inlinable package var wrappedValue: Value? {
        get { value == .absent ? nil : value }
        set { value = newValue ?? .absent }
    }
}

extension PackedOptional: Equatable {}
extension PackedOptional: Hashable where Value: Hashable {}
extension PackedOptional: Sendable where Value: Sendable {}

/// The smallest number means "absent".
extension Int32: Absentable { @inlinable package static var absent: Int32 { .min } }
extension Int: Absentable { @inlinable package static var absent: Int { .min } }
