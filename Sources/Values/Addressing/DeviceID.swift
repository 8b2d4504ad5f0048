import Collections

/// Identifies one device of one AOR from the device's first REGISTER to its last. It is also the number of the device's
/// row in the store.
package struct DeviceID: SerialID, Absentable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    /// The number that means "no device".
    package static let nobody = DeviceID(rawValue: 0)

    package static var absent: DeviceID { nobody }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: DeviceID, right: DeviceID) -> Bool { left.rawValue == right.rawValue }

    package var description: String { name }

    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.rawValue < right.rawValue }
}
