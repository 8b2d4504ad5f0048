package import Addressing

/// In tests, devices are written as numbers.
extension DeviceID: ExpressibleByIntegerLiteral {
    package init(integerLiteral number: UInt64) { self.init(rawValue: number) }
}
