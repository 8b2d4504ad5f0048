import SIPGrammar

/// What the sender of a request inside a dialog hears from us (T27.4).
enum DialogStatus {
    /// A 480 ends the call, and a 502 its whole dialog (RFC 5057 section 5.1), though the phone may only sleep. A 500 ends the
    /// request alone, and can be tried again. A BYE ends the call whatever it hears.
    ///
    /// - Parameters:
    ///   - status: as it would be outside a dialog.
    ///   - method: of the request.
    ///   - wasWoken: its phone was woken, and did not come.
    /// - Returns: the status that is sent.
    static func inside(_ status: Status, _ method: Method, wasWoken: Bool) -> Status {
        switch status {
        case .temporarilyUnavailable where method != .bye, .badGateway: .serverError
        case .requestTimeout where wasWoken: .serverError
        default: status
        }
    }

    /// When its sender may try again. A phone that a push has not woken by then seldom comes sooner.
    static let retryAfter = 10
}
