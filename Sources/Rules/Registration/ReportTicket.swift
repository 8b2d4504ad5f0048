package import PushDelivery

/// The number of one HTTP report about a device, chosen by the HTTP service.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The result of a report or a removal of devices over HTTP.
package enum ReportResult: Hashable, Sendable {
    /// The store has written the changes; the number counts the added, changed or removed devices.
    case done(Int)
    /// The daemon cannot push to the token: the provider is switched off, or the token belongs to no app in the
    /// settings.
    case notSupported(TokenProblem)
    /// The user already has as many devices as the settings allow.
    case tooManyDevices
    /// A value in the report of a device is too long.
    case malformed
    /// The store could not write the changes, or too much work waits for the user; the client can try again later.
    case unavailable
}
