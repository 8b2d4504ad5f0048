package import PushDelivery

/// Identifies one report of a device over HTTP, by a number that the shell chose.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The result of a report of a device over HTTP, or of a removal.
package enum ReportResult: Hashable, Sendable {
    /// The changes are persisted. The number counts the devices that were added, changed or removed.
    case done(Int)
    /// The daemon cannot push to the token: its provider is switched off, or it cannot belong to one of our apps.
    case notSupported(TokenProblem)
    /// The user already has the maximum number of devices.
    case tooManyDevices
    /// A value of the report is too long.
    case malformed
    /// The store took no changes, or too much work waits for this user. The client may retry later.
    case unavailable
}
