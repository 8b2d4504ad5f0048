package import Timekeeping

/// The tries of one push: sent, and sent again after a pause while it is worth it.
///
/// Pure: reads no clock, sends nothing. Feed it events; run the action it returns.
package struct PushAttempt: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Waits for its turn at the provider or for a credential. Next: `sent`, `ended`.
        case queued
        /// The provider has not answered yet. Next: `queued` (a new credential is wanted), `pausing`, `ended`.
        case sent
        /// Waits before another try. Next: `queued`, `ended`.
        case pausing(until: Instant)
        /// The outcome is known, or nobody wants it any more.
        case ended
    }

    package enum Action: Hashable, Sendable {
        case none
        /// Take the push to its server's queue.
        case enqueue
        /// Hand it to the provider now; no answer counts after the instant.
        case send(until: Instant)
        /// As `enqueue`, with a credential made anew.
        case renewCredentialAndEnqueue
        /// Call ``deadlineReached(now:)`` then.
        case arm(Instant)
        case finish(PushOutcome)
    }

    /// How long to wait before the second try, the third, and so on; there are no more tries than that and one.
    package struct Pauses: Hashable, Sendable {
        package let durations: [Duration]

        package init(durations: [Duration]) { self.durations = durations }

        /// Quick at first, for a phone rings about half a minute; then steady until that is over.
        package static let call = Pauses(
            durations: [.milliseconds(300), .seconds(1), .seconds(3)] + Array(repeating: .seconds(5), count: 5))
        /// A list of missed calls can wait; when it fails for good it comes with the next return of its device.
        package static let missedCalls = Pauses(durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60)])
        /// Nobody sends it again when it has failed for good, but it waits in memory as long.
        package static let notification = Pauses(
            durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60), .seconds(300)])
    }

    package private(set) var state = State.queued
    private let pauses: Pauses
    /// The push is worth nothing from then on.
    private let deadline: Instant
    private let answerTimeout: Duration
    /// How often the push was sent; a try that failed for an outdated credential does not count.
    package private(set) var tries = 0
    private var hasRenewedCredential = false
    /// Nobody waits for the push any more, and what is under way is its last try.
    package private(set) var isLast = false
    /// The outcome to report when time runs out.
    private var lastOutcome = PushOutcome.retry(after: nil)

    package init(pauses: Pauses, deadline: Instant, answerTimeout: Duration) {
        self.pauses = pauses
        self.deadline = deadline
        self.answerTimeout = answerTimeout
    }

    // MARK: What happened

    /// It is the push's turn, and its credential is there.
    package mutating func turnCame(now: Instant) -> Action {
        switch state {
        case .queued:
            guard now < deadline else { return end(lastOutcome) }
            state = .sent
            tries += 1
            return .send(until: min(deadline, now + answerTimeout))
        case .sent, .pausing, .ended: return .none
        }
    }

    /// The provider answered, or could not be reached, or there is no credential. The `chance`, from 0 up to 1, spreads the
    /// next tries of many pushes that failed together.
    package mutating func answered(_ outcome: PushOutcome, chance: Double, now: Instant) -> Action {
        switch state {
        // There was no credential. That counts as a try, or it would be asked for without end.
        case .queued: tries += 1
        case .sent: break
        case .pausing, .ended: return .none
        }
        if isLast { return end(outcome) }
        switch outcome {
        case .retry(let wish): return pause(atLeast: wish ?? .zero, chance: chance, outcome, now: now)
        case .renewCredential:
            guard !hasRenewedCredential else { return end(.credentialsRefused("the credential was refused again")) }
            hasRenewedCredential = true
            tries = max(0, tries - 1)
            state = .queued
            return .renewCredentialAndEnqueue
        case .accepted, .acceptedWithNewToken, .tokenDead, .credentialsRefused, .foreignToken, .noConnection,
            .payloadRefused,
            .noSuitableToken:
            return end(outcome)
        }
    }

    /// The instant of ``Action/arm(_:)`` has come.
    package mutating func deadlineReached(now: Instant) -> Action {
        switch state {
        case .pausing(let instant):
            guard now >= instant else { return .arm(instant) }
            state = .queued
            return .enqueue
        case .queued, .sent, .ended: return .none
        }
    }

    /// Nobody waits for the push any more: the call is over, or the device has registered. A request that is under way is
    /// not taken back by that: the provider may have it, and what it says counts.
    ///
    /// - Returns: whether the push ends now.
    package mutating func cancelled() -> Bool {
        switch state {
        case .sent:
            isLast = true
            return false
        case .queued, .pausing, .ended:
            state = .ended
            return true
        }
    }

    // MARK: Steps

    private mutating func pause(
        atLeast wish: Duration, chance: Double, _ outcome: PushOutcome, now: Instant
    ) -> Action {
        lastOutcome = outcome
        let index = max(0, tries - 1)
        guard index < pauses.durations.count else { return end(outcome) }
        // From 3/4 to 5/4 of the pause.
        let instant = now + max(wish, pauses.durations[index] * (0.75 + 0.5 * min(max(chance, 0), 1)))
        guard instant < deadline else { return end(outcome) }
        state = .pausing(until: instant)
        return .arm(instant)
    }

    private mutating func end(_ outcome: PushOutcome) -> Action {
        state = .ended
        return .finish(outcome)
    }
}

extension PushRequest {
    /// The pauses that become what the push says.
    var pauses: PushAttempt.Pauses {
        switch message {
        case .incomingCall, .silent: .call
        case .missedCalls: .missedCalls
        case .notification: .notification
        }
    }
}
