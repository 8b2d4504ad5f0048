import Collections
package import Timekeeping

/// The pushes that wait for one server of a provider, how many requests to it may be under way, and whether it can be
/// reached.
///
/// After several failures in a row the breaker opens, so that a provider which is down costs neither connections nor
/// pushes: the pushes wait, and one of them is let through now and then to see whether the provider is back.
///
/// It does no input or output itself: it is told what happens, and says which pushes to start.
package struct PushQueue: Sendable {
    /// Whether pushes pass.
    package enum Breaker: Hashable, Sendable {
        /// Requests go out. The instant is that of the last failure that counted. Next: `open`.
        case closed(failuresInARow: Int, since: Instant = .distantPast)
        /// Nothing is sent before the instant. Next: `probing`.
        case open(until: Instant)
        /// One push is under way to find out whether the provider is back. Next: `closed`, `open`.
        case probing
    }

    package enum Admission: Hashable, Sendable {
        case start
        case wait
        /// Too many pushes wait already.
        case refuse
    }

    /// What an exchange says about the provider itself, not about the push.
    package enum Health: Hashable, Sendable {
        /// The provider answered, whatever it said.
        case answered
        /// The provider could not be reached, did not answer, or was unable to do its work.
        case failed
        /// It failed again for a push that had failed before. It does not count, since one push alone proves nothing.
        case failedAgain
        /// The exchange was taken back, so nothing is known.
        case unknown
    }

    package private(set) var breaker = Breaker.closed(failuresInARow: 0)
    package private(set) var inFlight = 0
    private let settings: PushLimits
    private var queue = Queue<PushID>()

    /// How many failures in a row open the breaker.
    private static let failureLimit = 5
    /// Failures within this time count once, because a connection that breaks takes many pushes with it.
    private static let together: Duration = .milliseconds(100)
    /// How long the breaker stays open before the next probe.
    private static let pause: Duration = .seconds(5)

    package init(_ settings: PushLimits) { self.settings = settings }

    /// The provider is not reached, as far as one knows.
    package var isBreakerOpen: Bool {
        switch breaker {
        case .closed: false
        case .open, .probing: true
        }
    }

    package var queued: Int { queue.count }

    // MARK: What happened

    /// A push wants to go.
    package mutating func arrived(_ id: PushID, now: Instant) -> Admission {
        if queued == 0, begin(now: now) { return .start }
        guard queued < settings.queue else { return .refuse }
        queue.append(id)
        return .wait
    }

    /// A push that was started is no longer under way.
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
        // Nothing was found out, so the next in the queue probes at once.
        case (.probing, .unknown): breaker = .open(until: now)
        // This one was under way when the breaker opened.
        case (.open, .answered): breaker = .closed(failuresInARow: 0)
        case (.closed, .failedAgain), (.closed, .unknown), (.open, .failed), (.open, .failedAgain), (.open, .unknown):
            break
        }
    }

    /// The next push that may go now; `nil` when none waits or none may.
    ///
    /// Ask until it returns `nil`, after a push has left and at ``nextProbe``. If the push no longer wants to go, say
    /// so with ``left(_:now:)`` and ask on.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// When to ask for the ``next(now:)`` although nothing has left.
    package var nextProbe: Instant? {
        switch breaker {
        case .open(let until): queued > 0 ? until : nil
        case .closed, .probing: nil
        }
    }

    /// Claims a place for one push, and returns whether there was one.
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
