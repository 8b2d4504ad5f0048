package import Timekeeping

/// The circuit breaker of a push server, which opens after several consecutive failures.
///
/// While the circuit breaker is open, no push is sent, so an unreachable provider uses up neither connections nor tries
/// of pushes. At intervals, one push is sent as a probe. A ``PushBreaker`` does no input or output.
package struct PushBreaker: Sendable {
    package enum State: Hashable, Sendable {
        /// The circuit breaker is closed, so pushes are sent. The value `since` is the time of the last counted
        /// failure. The state `closed` is followed by `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// The circuit breaker is open, so no push is sent before the given instant. The state `open` is followed by
        /// `probing`.
        case open(until: Instant)
        /// A push is in flight as a probe. The state `probing` is followed by `closed` or `open`.
        case probing
    }

    /// The provider's state after one request. The outcome of the push does not matter here.
    package enum Health: Hashable, Sendable {
        /// The push provider answered the request, with any status.
        case answered
        /// The provider could not be reached, did not answer, or reported an internal failure.
        case failed
        /// A push that had failed before has failed again. A repeated failure does not count against the provider,
        /// because the push itself may be the cause.
        case failedAgain
        /// The request was cancelled, so the provider's state is unknown.
        case unknown
    }

    package private(set) var state = State.closed(failuresInARow: 0)

    /// The number of consecutive failures that opens the circuit breaker.
    private static let failureLimit = 5
    /// Failures within 100 ms are treated as one failure, because a broken connection makes many pushes fail together.
    private static let together: Duration = .milliseconds(100)
    /// How long the circuit breaker stays open before the next probe.
    private static let pause: Duration = .seconds(5)

    package init() {}

    /// Whether the circuit breaker is open or probing, because the provider probably cannot be reached.
    package var isOpen: Bool {
        switch state {
        case .closed: false
        case .open, .probing: true
        }
    }

    /// Whether a push may be sent now. A push that is sent after the pause is a probe.
    package func permitsPush(now: Instant) -> Bool {
        switch state {
        case .closed: true
        case .open(let until): now >= until
        case .probing: false
        }
    }

    // MARK: What happened

    /// Notes that a permitted push is sent. While the circuit breaker is open, the push is a probe.
    package mutating func pushBegan() { if case .open = state { state = .probing } }

    /// Notes the end of a request, and counts the failure if the provider has failed.
    package mutating func requestEnded(_ health: Health, now: Instant) {
        switch (state, health) {
        case (.closed, .answered): state = .closed(failuresInARow: 0)
        case (.closed(let failures, let last), .failed):
            guard failures == 0 || now >= last + Self.together else { break }
            state =
                failures + 1 < Self.failureLimit
                ? .closed(failuresInARow: failures + 1, since: now) : .open(until: now + Self.pause)
        case (.probing, .answered): state = .closed(failuresInARow: 0)
        case (.probing, .failed), (.probing, .failedAgain): state = .open(until: now + Self.pause)
        // The result of the probe is unknown, so the next push is sent immediately as a probe.
        case (.probing, .unknown): state = .open(until: now)
        // An answer to a push that was sent before the circuit breaker opened closes the circuit breaker.
        case (.open, .answered): state = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }
}
