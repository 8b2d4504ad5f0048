package import Addressing

/// Lets tests write devices as numbers.
extension DeviceID: ExpressibleByIntegerLiteral {
    package init(integerLiteral number: UInt64) { self.init(rawValue: number) }
}
