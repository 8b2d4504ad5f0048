package import Timekeeping

/// What a provider answered to one request.
package struct ProviderAnswer: Sendable {
    package let status: Int
    /// `apns-id`.
    package let id: String?
    /// `Retry-After` as received.
    package let retryAfter: String?
    package let body: [UInt8]

    package init(status: Int, id: String? = nil, retryAfter: String? = nil, body: [UInt8] = []) {
        self.status = status
        self.id = id
        self.retryAfter = retryAfter
        self.body = body
    }

    /// The provider's answers are short; a longer body is not read.
    static let bodyLimit = 16 << 10
}

extension PushSettings {
    /// What the answer means for the push.
    ///
    /// - Parameters:
    ///   - answer: to a request that ``render(_:id:now:)`` made.
    ///   - provider: who answered.
    ///   - isProven: this provider has taken a push of ours before. Without that, an answer that speaks of a token from
    ///     elsewhere says more about our settings than about the token, and no contact is lost to a wrong setting.
    ///   - now: for a `Retry-After` that is a date.
    /// - Returns: the outcome of this try.
    package func outcome(
        of answer: ProviderAnswer, from provider: PushProvider, isProven: Bool, now: UnixTime
    ) -> PushOutcome {
        let retryAfter = answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }
        switch provider {
        case .apns, .apnsDevelopment: return APNsReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .fcm:
            switch fcm.bodyFormat {
            case .v1: return FCMReason.outcome(of: answer, retryAfter, isProven: isProven)
            case .legacy: return FCMLegacyReason.outcome(of: answer, retryAfter, isProven: isProven)
            }
        }
    }
}

extension PushOutcome {
    /// The outcome for a token that belongs to another app, project or environment.
    static func foreignToken(_ reason: String, isProven: Bool) -> PushOutcome {
        isProven ? .tokenDead(since: nil) : .credentialsRefused(reason)
    }

    /// The outcome for an answer whose reason is missing or new.
    static func unexplained(_ status: Int, _ reason: String?, _ retryAfter: Duration?) -> PushOutcome {
        let reason = reason ?? "status \(status)"
        switch status {
        case 401, 403, 407: return .credentialsRefused(reason)
        case 408, 429, 500...599: return .retry(after: retryAfter)
        default: return .payloadRefused(reason)
        }
    }
}
