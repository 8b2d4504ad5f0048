import Collections
package import Timekeeping

/// The queue of pushes for one server of a provider, with a limit of parallel requests and a circuit breaker.
///
/// After several failures in a row, the breaker opens, so that a provider that is down uses up neither connections nor
/// the tries of pushes. While the breaker is open, the pushes wait, and at intervals one push is sent as a probe.
///
/// A ``PushQueue`` performs no input or output: it receives events, and returns the pushes to start.
package struct PushQueue: Sendable {
    /// The state of the push app's circuit breaker.
    package enum Breaker: Hashable, Sendable {
        /// The circuit breaker is closed, so the app sends pushes. The time `since` is the time of the last failure
        /// that was counted. The breaker's state `closed` is followed by `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// The circuit breaker is open, so the app sends no push before the given instant. The breaker's state `open`
        /// is followed by `probing`.
        case open(until: Instant)
        /// A push is in flight as a probe. The breaker's state `probing` is followed by `closed` or `open`.
        case probing
    }

    package enum Verdict: Hashable, Sendable {
        case start
        case wait
        /// The queue for pushes to the server is full, and the push is refused.
        case refuse
    }

    /// The state of a provider, as the end of one request shows it, regardless of the push's outcome.
    package enum Health: Hashable, Sendable {
        /// The push provider answered the request, with any status.
        case answered
        /// The provider could not be reached, did not answer, or reported an internal failure.
        case failed
        /// A push that had already failed has failed a second time. The second failure of a push does not count against
        /// the provider, because the push itself may be the cause.
        case failedAgain
        /// The request was cancelled, so the provider's state is unknown.
        case unknown
    }

    package private(set) var breaker = Breaker.closed(failuresInARow: 0)
    package private(set) var inFlight = 0
    private let settings: ProviderLimits
    private var queue = Queue<PushID>()

    /// The number of failures in a row that opens the breaker.
    private static let failureLimit = 5
    /// Several failures within 100 ms count as one failure, because a broken connection makes many pushes fail
    /// together.
    private static let together: Duration = .milliseconds(100)
    /// How long the breaker stays open before the next probe.
    private static let pause: Duration = .seconds(5)

    package init(_ settings: ProviderLimits) { self.settings = settings }

    /// Whether the circuit breaker is open, because the provider probably cannot be reached.
    package var isBreakerOpen: Bool {
        switch breaker {
        case .closed: false
        case .open, .probing: true
        }
    }

    package var queued: Int { queue.count }

    // MARK: What happened

    /// Adds a new push to the queue. The result says whether the new push starts, waits or is refused.
    package mutating func arrived(_ id: PushID, now: Instant) -> Verdict {
        if queued == 0, begin(now: now) { return .start }
        guard queued < settings.queue else { return .refuse }
        queue.append(id)
        return .wait
    }

    /// Notes that a started push no longer counts as a parallel request, and counts failures of the provider.
    package mutating func left(_ health: Health, now: Instant) {
        inFlight -= 1
        switch (breaker, health) {
        case (.closed, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed(let failures, let last), .failed):
            guard failures == 0 || now >= last + Self.together else { break }
            breaker =
                failures + 1 < Self.failureLimit
                ? .closed(failuresInARow: failures + 1, since: now) : .open(until: now + Self.pause)
        case (.probing, .answered): breaker = .closed(failuresInARow: 0)
        case (.probing, .failed), (.probing, .failedAgain): breaker = .open(until: now + Self.pause)
        // The result of the probe is unknown, so the next push is sent immediately as a probe.
        case (.probing, .unknown): breaker = .open(until: now)
        // A push that was in flight when the breaker opened was answered, so the breaker closes.
        case (.open, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }

    /// Returns the next push to start; `nil` if no push waits or no push can start now.
    ///
    /// After each ``left(_:now:)`` and at ``nextProbe``, the dispatcher starts pushes until the result of the function
    /// is `nil`. If a returned push is no longer needed, the dispatcher first reports the push with ``left(_:now:)``.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// The time at which ``next(now:)`` can return a probe even if no push has left the queue.
    package var nextProbe: Instant? {
        switch breaker {
        case .open(let until): queued > 0 ? until : nil
        case .closed, .probing: nil
        }
    }

    /// Counts a push as one of the parallel requests. If all parallel requests are in use, or if the breaker is open,
    /// ``begin(now:)`` returns false.
    private mutating func begin(now: Instant) -> Bool {
        guard inFlight < settings.requests else { return false }
        switch breaker {
        case .closed: break
        case .open(let until):
            guard now >= until else { return false }
            breaker = .probing
        case .probing: return false
        }
        inFlight += 1
        return true
    }
}
