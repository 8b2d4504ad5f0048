package import SIPGrammar

/// Chooses the status for the sender of a request inside a dialog (T27.4).
package enum DialogStatus {
    /// A 480 ends the call, and a 502 ends its whole dialog (RFC 5057 section 5.1), though the phone may only sleep.
    /// A 500 ends only the request, which can be retried. A BYE ends the call with any status.
    ///
    /// - Parameters:
    ///   - status: the status that the request would get outside a dialog.
    ///   - method: the method of the request.
    ///   - wasWoken: whether the phone was woken and did not come.
    /// - Returns: the status to send.
    package static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// Seconds after which the sender may retry. A phone that has not come after its push seldom comes sooner.
    package static let retryAfter = 10
}
