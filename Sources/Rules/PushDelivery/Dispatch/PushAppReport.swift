package import Timekeeping

/// The push statistics of one app since the start.
package struct PushAppReport: Hashable, Sendable {
    package private(set) var accepted = 0
    /// Pushes that ended without being accepted, for any reason.
    package private(set) var failed = 0
    package private(set) var deadTokens = 0
    /// Pushes that ended because the provider refused our credentials.
    package private(set) var credentialsRefused = 0
    /// Pushes that ended because the provider refused their contents.
    package private(set) var payloadsRefused = 0
    /// Requests that were sent. Each try of a push counts as one.
    package var sent = 0
    /// Tries after the first.
    package var retried = 0
    /// Pushes that were withdrawn before their end.
    package var withdrawn = 0
    /// Pushes that ended because their tokens belong to another app.
    package private(set) var foreignTokens = 0
    /// Why the provider could not be reached at the last try; `nil` after the next answer.
    package var problem: String?
    /// Why the provider last refused our credentials, or why no connection was possible, until the next accepted push.
    package private(set) var refusal: String?
    package private(set) var refusedAt: UnixTime?
    /// When the provider last accepted a push.
    package private(set) var acceptedAt: UnixTime?
    package var queued = 0
    package var inFlight = 0
    /// Whether requests are sent, because the breaker is closed, see ``PushQueue``.
    package var isReachable = true

    package init() {}

    /// Pushes that failed for a reason without its own count: the provider was unreachable, time was over, or the queue
    /// was full.
    package var failedOtherwise: Int { failed - deadTokens - credentialsRefused - foreignTokens - payloadsRefused }

    package mutating func count(_ outcome: PushOutcome, at date: UnixTime) {
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            accepted += 1
            acceptedAt = date
            refusal = nil
            refusedAt = nil
            return
        case .tokenDead: deadTokens += 1
        case .credentialsRefused(let reason):
            credentialsRefused += 1
            refusal = reason
            refusedAt = date
        case .foreignToken: foreignTokens += 1
        case .noConnection(let reason):
            refusal = reason
            refusedAt = date
        case .payloadRefused: payloadsRefused += 1
        case .retry, .renewCredential, .noSuitableToken: break
        }
        failed += 1
    }
}
