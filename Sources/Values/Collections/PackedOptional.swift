/// A type that reserves one of its values to mean "absent".
@usableFromInline
package protocol Absentable: Equatable {
    static var absent: Self { get }
}

/// An optional that needs no more memory than the same value without the optional. The wrapper ``PackedOptional`` saves
/// memory in structs of which the daemon stores hundreds of thousands.
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

/// In the integer types, the smallest number means "absent".
extension Int32: Absentable { @inlinable package static var absent: Int32 { .min } }
extension Int: Absentable { @inlinable package static var absent: Int { .min } }
