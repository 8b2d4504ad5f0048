package import Timekeeping

/// The tries of one push. The push is sent, and retried after pauses as long as it is useful.
///
/// This type is pure: it reads no clock and sends nothing. The caller reports events to it and runs the returned
/// actions.
package struct PushAttempt: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// The push waits for its turn at the provider or for a credential. Next: `sent`, `ended`.
        case queued
        /// The provider has not answered yet. Next: `queued` (for a new credential), `pausing`, `ended`.
        case sent
        /// The push waits before another try. Next: `queued`, `ended`.
        case pausing(until: Instant)
        /// The outcome is known, or the push is no longer needed.
        case ended
    }

    package enum Action: Hashable, Sendable {
        case none
        /// Add the push to its server's queue.
        case enqueue
        /// Send the push to the provider now. An answer after `until` is ignored.
        case send(until: Instant)
        /// Get a new credential, then add the push to its server's queue.
        case renewCredentialAndEnqueue
        /// Call ``deadlineReached(now:)`` at that instant.
        case arm(Instant)
        case finish(PushOutcome)
    }

    /// The pauses before the second try, the third, and so on. A push has one try more than it has pauses.
    package struct Pauses: Hashable, Sendable {
        package let durations: [Duration]

        package init(durations: [Duration]) { self.durations = durations }

        /// The pauses of calls. They are short at first, because a phone rings for about half a minute, and then
        /// constant until that time is over.
        package static let call = Pauses(
            durations: [.milliseconds(300), .seconds(1), .seconds(3)] + Array(repeating: .seconds(5), count: 5))
        /// The pauses of a list of missed calls, which can wait. After the last try the list is sent again when its
        /// device registers.
        package static let missedCalls = Pauses(durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60)])
        /// The pauses of notifications. A notification is not sent again after the last try, so its pauses are the
        /// longest.
        package static let notification = Pauses(
            durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60), .seconds(300)])
    }

    package private(set) var state = State.queued
    private let pauses: Pauses
    /// When the push becomes useless.
    private let deadline: Instant
    private let answerTimeout: Duration
    /// The number of tries. A try that failed for an outdated credential does not count.
    package private(set) var tries = 0
    /// Whether the provider has refused a credential as outdated, so that a new one was made.
    private(set) var hasRenewedCredential = false
    /// The reason of a push whose new credential was refused as outdated, too.
    static let refusedAgain = "the credential was refused again"
    /// Whether the push is no longer needed, so that the request in flight is its last try.
    package private(set) var isLast = false
    /// The outcome to report when time runs out.
    private var lastOutcome = PushOutcome.retry(after: nil)

    package init(pauses: Pauses, deadline: Instant, answerTimeout: Duration) {
        self.pauses = pauses
        self.deadline = deadline
        self.answerTimeout = answerTimeout
    }

    // MARK: What happened

    /// The push has its turn and its credential.
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

    /// The provider answered or could not be reached, or the credential is missing. `chance`, from 0 up to 1, spreads
    /// the retries of many pushes that failed together.
    package mutating func answered(_ outcome: PushOutcome, chance: Double, now: Instant) -> Action {
        switch state {
        // The credential was missing. That counts as a try; otherwise it would be requested without end.
        case .queued: tries += 1
        case .sent: break
        case .pausing, .ended: return .none
        }
        if isLast { return end(outcome) }
        switch outcome {
        case .retry(let wish): return pause(atLeast: wish ?? .zero, chance: chance, outcome, now: now)
        case .renewCredential:
            guard !hasRenewedCredential else { return end(.credentialsRefused(Self.refusedAgain)) }
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

    /// The push is no longer needed: the call is over, or the device has registered. A request in flight is not
    /// withdrawn: the provider may have received it, and its answer counts.
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
        // The pause is between 3/4 and 5/4 of its value.
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
    /// The pauses for this kind of push.
    var pauses: PushAttempt.Pauses {
        switch message {
        case .incomingCall, .silent: .call
        case .missedCalls: .missedCalls
        case .notification: .notification
        }
    }
}
