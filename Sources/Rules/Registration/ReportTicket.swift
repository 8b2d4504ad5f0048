package import PushDelivery

/// Identifies one report about a device, which came over HTTP. The sender of the report chooses the number of the
/// ticket.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The result of a report or a removal of devices over HTTP.
package enum ReportResult: Hashable, Sendable {
    /// The store has written the changes of a report or a removal. The number in the case `done` counts the devices
    /// that were added, changed or removed.
    case done(Int)
    /// The daemon cannot push to the token, because the token's provider is switched off or the token belongs to no app
    /// in the settings.
    case notSupported(TokenProblem)
    /// The user already has as many devices as the settings allow.
    case tooManyDevices
    /// A value in the report of a device is too long.
    case malformed
    /// The store could not write the changes, or too much work waits for the user. If the store has failed, the client
    /// can try again later.
    case unavailable
}
