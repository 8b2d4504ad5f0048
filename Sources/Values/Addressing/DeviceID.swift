import Collections

/// Identifies one device of one AOR, from the device's first REGISTER to its last. The store uses the same id for a
/// device.
package struct DeviceID: SerialID, Absentable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    /// The id that means "no device".
    package static let nobody = DeviceID(rawValue: 0)

    package static var absent: DeviceID { nobody }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: DeviceID, right: DeviceID) -> Bool { left.rawValue == right.rawValue }

    package var description: String { name }

    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.rawValue < right.rawValue }
}
