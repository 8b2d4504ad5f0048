import Collections
package import Timekeeping

/// The queue of pushes for one server of a provider, with a limit of parallel requests and a circuit breaker.
///
/// After several failures in a row the breaker opens, so that a provider that is down costs neither connections nor
/// pushes. While it is open, the pushes wait, and at intervals one push is sent as a probe.
///
/// The queue performs no input or output: it receives events, and returns the pushes to start.
package struct PushQueue: Sendable {
    /// The state of the circuit breaker.
    package enum Breaker: Hashable, Sendable {
        /// Requests are sent. `since` is the time of the last counted failure. The next state is `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// No request is sent before this instant. The next state is `probing`.
        case open(until: Instant)
        /// A push is being sent as a probe. The next state is `closed` or `open`.
        case probing
    }

    package enum Verdict: Hashable, Sendable {
        case start
        case wait
        /// The queue is full, so the push is refused.
        case refuse
    }

    /// The provider's state as one request shows it, whatever its result means for the push.
    package enum Health: Hashable, Sendable {
        /// The provider answered, with any status.
        case answered
        /// The provider could not be reached, did not answer, or reported an internal failure.
        case failed
        /// A push that failed before has failed again. This failure is not counted, because a single push proves
        /// nothing.
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
    /// The time within which several failures count once, because a broken connection makes many pushes fail together.
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

    /// Handles a new push: the result says whether to start it, to let it wait, or to refuse it.
    package mutating func arrived(_ id: PushID, now: Instant) -> Verdict {
        if queued == 0, begin(now: now) { return .start }
        guard queued < settings.queue else { return .refuse }
        queue.append(id)
        return .wait
    }

    /// Notes that a started push has ended.
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
        // The result is unknown, so the next push is a probe and is sent immediately.
        case (.probing, .unknown): breaker = .open(until: now)
        // This push was in flight when the breaker opened.
        case (.open, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }

    /// Returns the next push to start; `nil` if no push waits or no push may start.
    ///
    /// The caller of this method repeats the call until the result is `nil`, after a push has left and at
    /// ``nextProbe``. If a returned push is no longer needed, the caller reports it by ``left(_:now:)`` first.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// The time at which ``next(now:)`` must be called even if no push has left.
    package var nextProbe: Instant? {
        switch breaker {
        case .open(let until): queued > 0 ? until : nil
        case .closed, .probing: nil
        }
    }

    /// Reserves one of the parallel requests for a push. Returns whether one was free.
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
