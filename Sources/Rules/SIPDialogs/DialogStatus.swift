package import SIPGrammar

/// Chooses the status that the sender of a request inside a dialog gets (T27.4).
package enum DialogStatus {
    /// The status for a request inside a dialog, if the request would get `status` outside a dialog.
    ///
    /// A 480 would end the call, and a 502 its whole dialog (RFC 5057 section 5.1), although the phone may only sleep.
    /// A 500 ends only the request, which the sender can retry. A BYE ends the call no matter which status its response
    /// has. The parameter `wasWoken` says whether the phone got a push and did not register.
    package static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// The Retry-After in seconds of these responses. The time is not shorter, because a phone that does not register
    /// soon after its push rarely registers within the next few seconds.
    package static let retryAfter = 10
}
