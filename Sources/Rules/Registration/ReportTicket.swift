package import PushDelivery

/// Identifies one report of a device, by a number that the shell chose.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The result of a report about devices.
package enum ReportResult: Hashable, Sendable {
    /// The report is persisted. The number says how many devices were added, changed or removed.
    case done(Int)
    /// The provider is switched off, or the token cannot be one of our apps'.
    case notSupported(TokenProblem)
    /// The user already has the maximum number of devices.
    case tooManyDevices
    /// A value of the report is too long.
    case malformed
    /// The disk or the user's queue is full. The client may retry later.
    case unavailable
}
