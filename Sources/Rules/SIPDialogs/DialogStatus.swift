package import SIPGrammar

/// Chooses the status that the sender of a request inside a dialog gets (T27.4).
package enum DialogStatus {
    /// The status for a request inside a dialog, if the request would get `status` outside a dialog.
    ///
    /// If the phone only sleeps, a 480 would end the call, and a 502 the whole dialog (RFC 5057 section 5.1). A 500
    /// ends only the request, which the sender can send again. A BYE ends the call no matter which status its response
    /// has. The parameter `wasWoken` says whether the phone got a push and did not register.
    package static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// The Retry-After in seconds of a response that ends a request inside a dialog, but not the dialog. The
    /// Retry-After is not shorter, because a phone that does not register soon after its push rarely registers within
    /// the next few seconds.
    package static let retryAfter = 10
}
