package import Addressing

/// In tests a device is a number.
extension DeviceID: ExpressibleByIntegerLiteral {
    package init(integerLiteral number: UInt64) { self.init(rawValue: number) }
}
