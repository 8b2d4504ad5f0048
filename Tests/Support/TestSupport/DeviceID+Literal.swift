package import Addressing

/// Lets tests write device ids as numbers.
extension DeviceID: ExpressibleByIntegerLiteral {
    package init(integerLiteral number: UInt64) { self.init(rawValue: number) }
}
