import Collections
package import Timekeeping

/// The queue of pushes to one push server, with a limit on parallel requests.
///
/// While the server's ``PushBreaker`` is open, pushes wait, except one push at intervals as a probe. A ``PushQueue``
/// does no input or output: its methods take events and return the pushes to start.
package struct PushQueue: Sendable {
    package enum Verdict: Hashable, Sendable {
        case start
        case wait
        /// The queue is full, and the push is refused.
        case refuse
    }

    package private(set) var breaker = PushBreaker()
    package private(set) var inFlight = 0
    private let settings: ProviderLimits
    private var queue = Queue<PushID>()
    /// The limit of requests in a second; `nil` for no limit.
    private var pace: PushPace?

    /// Creates the queue of a server. The server gets at most `rate` requests in a second; `nil` for no limit.
    package init(_ settings: ProviderLimits, rate: Int? = nil) {
        self.settings = settings
        pace = rate.map { PushPace($0) }
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

    /// Notes that a started push is no longer a parallel request, and tells the breaker how the provider is.
    package mutating func left(_ health: PushBreaker.Health, now: Instant) {
        inFlight -= 1
        breaker.requestEnded(health, now: now)
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
        switch breaker.state {
        case .open(let until): return max(until, pace?.next ?? until)
        case .closed: return inFlight < settings.requests ? pace?.next : nil
        case .probing: return nil
        }
    }

    /// Counts a push as a parallel request; returns false if all parallel requests are in use or the breaker permits no
    /// push.
    private mutating func begin(now: Instant) -> Bool {
        guard inFlight < settings.requests, breaker.permitsPush(now: now), pace?.admit(now: now) != false else {
            return false
        }
        breaker.pushBegan()
        inFlight += 1
        return true
    }
}
