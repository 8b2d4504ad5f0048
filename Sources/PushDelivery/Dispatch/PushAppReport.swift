package import Timekeeping

/// How one app's pushes have fared since the start.
package struct PushAppReport: Hashable, Sendable {
    package private(set) var accepted = 0
    /// Ended without being accepted, for whatever reason.
    package private(set) var failed = 0
    package private(set) var deadTokens = 0
    /// Ended because the provider does not accept us.
    package private(set) var credentialsRefused = 0
    /// Ended because the provider does not accept what we wrote.
    package private(set) var payloadsRefused = 0
    /// Requests that left, each try of a push.
    package var sent = 0
    /// Tries after the first.
    package var retried = 0
    /// Taken back before their end.
    package var withdrawn = 0
    /// The provider's reason of the last time, until a push is accepted again.
    package private(set) var refusal: String?
    package private(set) var refusedAt: UnixTime?
    package var queued = 0
    package var inFlight = 0
    /// The breaker is closed: requests go out.
    package var isReachable = true

    package init() {}

    /// Failed for another reason than those that are counted by themselves: not reached, too late, no place.
    package var failedOtherwise: Int { failed - deadTokens - credentialsRefused - payloadsRefused }

    package mutating func count(_ outcome: PushOutcome, at date: UnixTime) {
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            accepted += 1
            refusal = nil
            refusedAt = nil
            return
        case .tokenDead: deadTokens += 1
        case .credentialsRefused(let reason):
            credentialsRefused += 1
            refusal = reason
            refusedAt = date
        case .noConnection(let reason):
            refusal = reason
            refusedAt = date
        case .payloadRefused: payloadsRefused += 1
        case .retry, .renewCredential, .noSuitableToken: break
        }
        failed += 1
    }
}
