package import SIPGrammar

/// Chooses the status that the sender of a request inside a dialog gets (T27.4).
package enum DialogStatus {
    /// The status inside a dialog. A 480 would end the call, and a 502 its whole dialog (RFC 5057 section 5.1),
    /// although the phone may only sleep. A 500 ends only the request, which the sender can retry. A BYE ends the call
    /// whatever its status is.
    ///
    /// - Parameters:
    ///   - status: the status that the request would get outside a dialog.
    ///   - method: the method of the request.
    ///   - wasWoken: whether the daemon sent the phone a push and the phone did not register.
    /// - Returns: the status to send.
    package static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// The number of seconds after which the sender may retry. A phone that does not register soon after its push
    /// rarely registers within the next seconds.
    /// rarely registers within the next seconds.
    package static let retryAfter = 10
}
