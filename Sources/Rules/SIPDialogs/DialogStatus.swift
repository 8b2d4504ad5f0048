package import SIPGrammar

/// Chooses the status of a response to a request inside a dialog (T27.4).
package enum DialogStatus {
    /// The status inside a dialog for a request that would get `status` outside a dialog.
    ///
    /// A 480 for a sleeping phone would end the call, and a 502 would end the whole dialog (RFC 5057 section 5.1). A
    /// 500 ends only the request, which the sender can send again. A BYE ends the call, whatever status its response
    /// has. The parameter `wasWoken` says whether the phone got a push and did not register.
    package static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// The Retry-After in seconds of a response that ends a request but not its dialog. A shorter Retry-After is
    /// useless, because a phone that does not register soon after its push rarely registers within the next few
    /// seconds.
    package static let retryAfter = 10
}
