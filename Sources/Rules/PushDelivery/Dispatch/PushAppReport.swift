package import Timekeeping

/// The push statistics of one app since the daemon started.
package struct PushAppReport: Hashable, Sendable {
    package private(set) var accepted = 0
    /// The number of pushes that ended without being accepted, for any reason.
    package private(set) var failed = 0
    package private(set) var deadTokens = 0
    /// The number of pushes that ended because the provider refused the daemon's credentials.
    package private(set) var credentialsRefused = 0
    /// The number of pushes that ended because the provider refused the content of the push.
    package private(set) var payloadsRefused = 0
    /// The number of requests to the provider; each try of a push is one request.
    package var sent = 0
    /// The number of retries; the first try of each push does not count.
    package var retried = 0
    /// The number of pushes that were withdrawn before the provider accepted them.
    package var withdrawn = 0
    /// The number of pushes that ended because their token belongs to another app.
    package private(set) var foreignTokens = 0
    /// Why the app's last push did not reach the push provider; `nil` after the provider has answered again.
    package var problem: String?
    /// Why the provider last refused the daemon's credentials, or why no connection was possible; `nil` after the next
    /// accepted push.
    package private(set) var refusal: String?
    package private(set) var refusedAt: UnixTime?
    /// The time at which the provider last accepted a push.
    package private(set) var acceptedAt: UnixTime?
    package var queued = 0
    package var inFlight = 0
    /// The number of answers with the status 429 from hosts that phones chose.
    package var limited = 0
    /// The busiest hosts that phones chose, at most ``PushHostReport/limit``.
    package var hosts: [PushHostReport] = []
    /// The number of hosts that phones chose and that the daemon remembers.
    package var hostCount = 0
    /// Whether the daemon sends requests to the provider, because the circuit breaker is closed (see ``PushBreaker``).
    package var isReachable = true

    package init() {}

    /// The number of failed pushes without a counter for their reason, for example an unreachable provider or a full
    /// queue.
    package var failedOtherwise: Int { failed - deadTokens - credentialsRefused - foreignTokens - payloadsRefused }

    /// Adds the counts of another report. The states of the other report, such as the last refusal, are not added.
    mutating func add(_ other: PushAppReport) {
        accepted += other.accepted
        failed += other.failed
        deadTokens += other.deadTokens
        credentialsRefused += other.credentialsRefused
        payloadsRefused += other.payloadsRefused
        foreignTokens += other.foreignTokens
        sent += other.sent
        retried += other.retried
        withdrawn += other.withdrawn
        limited += other.limited
        if let date = other.acceptedAt { acceptedAt = max(acceptedAt ?? date, date) }
    }

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
