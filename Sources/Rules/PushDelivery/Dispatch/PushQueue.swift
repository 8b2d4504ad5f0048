import Collections
package import Timekeeping

/// The queue of pushes for one server of a provider, its limit of parallel requests, and its breaker.
///
/// After several failures in a row the breaker opens, so that a provider that is down costs neither connections nor
/// pushes. The pushes wait, and at intervals one of them is sent as a probe.
///
/// The queue does no input or output itself: it receives events, and returns which pushes to start.
package struct PushQueue: Sendable {
    /// Whether pushes pass.
    package enum Breaker: Hashable, Sendable {
        /// Requests are sent. `since` is the time of the last counted failure. Next: `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// No request is sent before the instant. Next: `probing`.
        case open(until: Instant)
        /// One push is being sent as a probe. Next: `closed`, `open`.
        case probing
    }

    package enum Verdict: Hashable, Sendable {
        case start
        case wait
        /// The queue is full.
        case refuse
    }

    /// The provider's state that one exchange shows, whatever happened to the push itself.
    package enum Health: Hashable, Sendable {
        /// The provider answered, with any status.
        case answered
        /// The provider could not be reached, did not answer, or reported an internal failure.
        case failed
        /// The provider failed again for a push that failed before. This does not count, because a single push proves
        /// nothing.
        case failedAgain
        /// The exchange was cancelled, so the state is unknown.
        case unknown
    }

    package private(set) var breaker = Breaker.closed(failuresInARow: 0)
    package private(set) var inFlight = 0
    private let settings: ProviderLimits
    private var queue = Queue<PushID>()

    /// The number of failures in a row that opens the breaker.
    private static let failureLimit = 5
    /// Failures within this time count once, because a broken connection fails many pushes together.
    private static let together: Duration = .milliseconds(100)
    /// How long the breaker stays open before the next probe.
    private static let pause: Duration = .seconds(5)

    package init(_ settings: ProviderLimits) { self.settings = settings }

    /// Whether the provider probably cannot be reached.
    package var isBreakerOpen: Bool {
        switch breaker {
        case .closed: false
        case .open, .probing: true
        }
    }

    package var queued: Int { queue.count }

    // MARK: What happened

    /// A push arrives.
    package mutating func arrived(_ id: PushID, now: Instant) -> Verdict {
        if queued == 0, begin(now: now) { return .start }
        guard queued < settings.queue else { return .refuse }
        queue.append(id)
        return .wait
    }

    /// A started push has ended.
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
        // The result is unknown, so the next push probes immediately.
        case (.probing, .unknown): breaker = .open(until: now)
        // This push was in flight when the breaker opened.
        case (.open, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }

    /// The next push to start; `nil` if none waits or none may start.
    ///
    /// Call this until it returns `nil`, after a push has left and at ``nextProbe``. If the push is no longer needed,
    /// call ``left(_:now:)`` and then this method again.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// When ``next(now:)`` must be called even if no push has left.
    package var nextProbe: Instant? {
        switch breaker {
        case .open(let until): queued > 0 ? until : nil
        case .closed, .probing: nil
        }
    }

    /// Claims a place for one push. Returns whether one was free.
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
