package import Timekeeping

/// A push provider's answer to one request.
package struct ProviderAnswer: Sendable {
    package let status: Int
    /// The value of the header field `apns-id`.
    package let id: String?
    /// The value of the header field `Retry-After`.
    package let retryAfter: String?
    /// The value of the header field `Date`, which shows the provider's clock.
    package let date: String?
    package let body: [UInt8]

    package init(
        status: Int, id: String? = nil, retryAfter: String? = nil, date: String? = nil, body: [UInt8] = []
    ) {
        self.date = date
        self.status = status
        self.id = id
        self.retryAfter = retryAfter
        self.body = body
    }

    /// Whether the answer reports a failure of the provider, and not only of one push.
    var isFailureOfProvider: Bool { status >= 500 }

    /// The answer of a server that a phone has chosen, without the server's texts. Texts of strangers must not reach
    /// logs and operators (T46.8).
    var ofStranger: ProviderAnswer { ProviderAnswer(status: status, retryAfter: retryAfter) }

    /// Says how far this machine's clock differs from the provider's clock; `nil` if the difference is small, or if the
    /// answer has no `Date`.
    package func clockFault(now: UnixTime) -> String? {
        guard let theirs = date.flatMap({ RetryAfter.date($0) }) else { return nil }
        let ahead = now.seconds.subtractingReportingOverflow(theirs).partialValue
        guard ahead.magnitude >= Self.clockTolerance else { return nil }
        return "this machine's clock is \(ahead.magnitude) s \(ahead > 0 ? "ahead of" : "behind") the provider's"
    }

    /// The minimum difference between the clocks, in seconds, that the daemon reports.
    private static let clockTolerance: UInt64 = 60

    /// The maximum size in bytes of an answer's body that the daemon parses. A body above the maximum size is ignored,
    /// because providers' answers are short.
    static let bodyLimit = 16 << 10
}

extension PushOutcome {
    /// The outcome of a push whose token belongs to another app, project or environment. If the provider has accepted
    /// another push of the app (`isProven`), the token is treated as dead. Otherwise, a wrong setting may be the reason
    /// for the answer.
    static func foreignToken(_ reason: String, isProven: Bool) -> PushOutcome {
        isProven ? .tokenDead(since: nil) : .foreignToken(reason)
    }

    /// The outcome of a push whose answer gives no reason, or an unknown reason.
    static func unexplained(_ status: Int, _ reason: String?, _ retryAfter: Duration?) -> PushOutcome {
        let reason = reason ?? "status \(status)"
        switch status {
        case 401, 403, 407: return .credentialsRefused(reason)
        case 408, 429, 500...599: return .retry(after: retryAfter)
        default: return .payloadRefused(reason)
        }
    }
}
