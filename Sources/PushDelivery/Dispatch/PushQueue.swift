import Collections
package import Timekeeping

/// Who waits for one server of a provider, how many requests to it may be under way, and whether it can be reached.
///
/// After several failures in a row the queue closes, so that a provider which is down costs neither connections nor
/// pushes: they wait, and one of them is let through now and then to see whether it is back.
///
/// Pure: feed it events; start the pushes it returns.
package struct PushQueue: Sendable {
    package enum State: Hashable, Sendable {
        /// Next: `closed`. The instant is that of the last failure that counted.
        case open(failuresInARow: Int, since: Instant = .distantPast)
        /// Nothing is sent before the instant. Next: `probing`.
        case closed(until: Instant)
        /// One push finds out. Next: `open`, `closed`.
        case probing
    }

    package enum Admission: Hashable, Sendable {
        case start
        case wait
        /// Too many wait already.
        case refuse
    }

    /// What an exchange says about the provider itself, not about the push.
    package enum Health: Hashable, Sendable {
        /// It answered, whatever it said.
        case answered
        /// It could not be reached, did not answer, or was unable to do its work.
        case failed
        /// The same for a push that had failed before: one push alone proves nothing.
        case failedAgain
        /// The exchange was taken back.
        case unknown
    }

    package private(set) var state = State.open(failuresInARow: 0)
    package private(set) var inFlight = 0
    private let settings: PushLimits
    private var queue = Queue<PushID>()

    /// Failures in a row that close the queue.
    private static let failureLimit = 5
    /// Failures that come within this time count once: a connection that breaks takes many pushes with it.
    private static let together: Duration = .milliseconds(100)
    /// How long it stays closed before the next probe.
    private static let pause: Duration = .seconds(5)

    package init(_ settings: PushLimits) { self.settings = settings }

    /// Whether the provider is reached, as far as one knows.
    package var isOpen: Bool {
        switch state {
        case .open: true
        case .closed, .probing: false
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
        switch (state, health) {
        case (.open, .answered): state = .open(failuresInARow: 0)
        case (.open(let failures, let last), .failed):
            guard failures == 0 || now >= last + Self.together else { break }
            state =
                failures + 1 < Self.failureLimit
                ? .open(failuresInARow: failures + 1, since: now) : .closed(until: now + Self.pause)
        case (.probing, .answered): state = .open(failuresInARow: 0)
        case (.probing, .failed), (.probing, .failedAgain): state = .closed(until: now + Self.pause)
        // Nothing was found out; the next in the queue probes at once.
        case (.probing, .unknown): state = .closed(until: now)
        // One of those that were under way when the queue closed.
        case (.closed, .answered): state = .open(failuresInARow: 0)
        case (.open, .failedAgain), (.open, .unknown), (.closed, .failed), (.closed, .failedAgain), (.closed, .unknown):
            break
        }
    }

    /// The next push that may go now; `nil` when none waits or none may. To be asked until it says `nil`, after a push
    /// has left, and at ``nextProbe``. Who no longer wants to go is to be passed over with ``left(_:now:)``.
    package mutating func next(now: Instant) -> PushID? {
        guard queued > 0, begin(now: now) else { return nil }
        return queue.popFirst()
    }

    /// When to ask for the ``next(now:)`` although nothing has left.
    package var nextProbe: Instant? {
        switch state {
        case .closed(let until): queued > 0 ? until : nil
        case .open, .probing: nil
        }
    }

    /// Claims a place for one push.
    private mutating func begin(now: Instant) -> Bool {
        guard inFlight < settings.requests else { return false }
        switch state {
        case .open: break
        case .closed(let until):
            guard now >= until else { return false }
            state = .probing
        case .probing: return false
        }
        inFlight += 1
        return true
    }
}
