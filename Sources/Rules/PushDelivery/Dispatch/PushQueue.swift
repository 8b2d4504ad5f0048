import Collections
package import Timekeeping

/// The queue of pushes to one push server, with a limit on parallel requests and a circuit breaker.
///
/// The circuit breaker opens after several consecutive failures. Therefore an unreachable provider uses up neither
/// connections nor tries of pushes. While the circuit breaker is open, pushes wait, and at intervals one push is sent
/// as a probe.
///
/// A ``PushQueue`` does no input or output: its methods take events and return the pushes to start.
package struct PushQueue: Sendable {
    /// The state of the circuit breaker.
    package enum Breaker: Hashable, Sendable {
        /// The circuit breaker is closed, so pushes are sent. The value `since` is the time of the last counted
        /// failure. The state `closed` is followed by `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// The circuit breaker is open, so no push is sent before the given instant. The state `open` is followed by
        /// `probing`.
        case open(until: Instant)
        /// A push is in flight as a probe. The state `probing` is followed by `closed` or `open`.
        case probing
    }

    package enum Verdict: Hashable, Sendable {
        case start
        case wait
        /// The queue is full, and the push is refused.
        case refuse
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

    package private(set) var breaker = Breaker.closed(failuresInARow: 0)
    package private(set) var inFlight = 0
    private let settings: ProviderLimits
    private var queue = Queue<PushID>()
    /// The limit of requests in a second; `nil` for no limit.
    private var pace: PushPace?

    /// The number of consecutive failures that opens the circuit breaker.
    private static let failureLimit = 5
    /// Failures within 100 ms are treated as one failure, because a broken connection makes many pushes fail together.
    private static let together: Duration = .milliseconds(100)
    /// How long the circuit breaker stays open before the next probe.
    private static let pause: Duration = .seconds(5)

    /// Creates the queue of a server. The server gets at most `rate` requests in a second; `nil` for no limit.
    package init(_ settings: ProviderLimits, rate: Int? = nil) {
        self.settings = settings
        pace = rate.map { PushPace($0) }
    }

    /// Whether the circuit breaker is open, because the provider probably cannot be reached.
    package var isBreakerOpen: Bool {
        switch breaker {
        case .closed: false
        case .open, .probing: true
        }
    }

    package var queued: Int { queue.count }

    // MARK: What happened

    /// Adds a new push, and returns whether the push starts, waits or is refused.
    package mutating func arrived(_ id: PushID, now: Instant) -> Verdict {
        if queued == 0, begin(now: now) { return .start }
        guard queued < settings.queue else { return .refuse }
        queue.append(id)
        return .wait
    }

    /// Notes that a started push is no longer a parallel request, and counts the failure if the provider has failed.
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
        // An answer to a push that was sent before the circuit breaker opened closes the circuit breaker.
        case (.open, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }

    /// Returns the next push to start; `nil` if no push waits or no push may start now.
    ///
    /// After each ``left(_:now:)`` and at ``nextProbe``, the dispatcher calls ``next(now:)`` until the result is `nil`.
    /// If a returned push is no longer needed, the dispatcher must report it to ``left(_:now:)``.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// The time at which ``next(now:)`` can return a push even if no push has left the queue: a probe, or a push that
    /// waited for the limit of requests in a second.
    package var nextProbe: Instant? {
        guard queued > 0 else { return nil }
        switch breaker {
        case .open(let until): return max(until, pace?.next ?? until)
        case .closed: return inFlight < settings.requests ? pace?.next : nil
        case .probing: return nil
        }
    }

    /// Counts a push as a parallel request; returns false if all parallel requests are in use or the circuit breaker is
    /// open.
    private mutating func begin(now: Instant) -> Bool {
        guard inFlight < settings.requests else { return false }
        switch breaker {
        case .closed: break
        case .open(let until): guard now >= until else { return false }
        case .probing: return false
        }
        if pace?.admit(now: now) == false { return false }
        if case .open = breaker { breaker = .probing }
        inFlight += 1
        return true
    }
}
