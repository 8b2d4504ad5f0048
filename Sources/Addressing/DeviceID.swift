/// Names one device of one AOR from its first REGISTER to its last; the row number in the store.
package struct DeviceID: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    /// In place of a device, where there is none.
    package static let nobody = DeviceID(rawValue: 0)

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package var description: String { name }

    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.rawValue < right.rawValue }
}
