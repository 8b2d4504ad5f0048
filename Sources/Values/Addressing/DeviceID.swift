import Collections

/// Identifies one device of one AOR from the device's first REGISTER to its last. The device's record in the store has
/// the same id as the device.
package struct DeviceID: SerialID, Absentable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    /// The id that means "no device".
    package static let nobody = DeviceID(rawValue: 0)

    package static var absent: DeviceID { nobody }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares two ids by code written by hand, because the compiler's `==` is slower in other modules.
    @inlinable
    package static func == (left: DeviceID, right: DeviceID) -> Bool { left.rawValue == right.rawValue }

    package var description: String { name }

    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.rawValue < right.rawValue }
}
