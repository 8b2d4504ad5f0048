package import Timekeeping

/// The tries of one push; after pauses, the push is sent again as long as it is useful.
///
/// ``PushRetries`` does no input or output: it reads no clock and sends no requests. The ``PushDispatcher`` reports
/// events to ``PushRetries``, and executes the returned actions.
package struct PushRetries: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// The push waits in the server's queue, or for a credential. The state `queued` is followed by `sent` or
        /// `ended`.
        case queued
        /// The push was sent, and the provider has not answered yet. The state `sent` is followed by `queued` (for a
        /// new credential), `pausing` or `ended`.
        case sent
        /// The push waits before its next try. The state `pausing` is followed by `queued` or `ended`.
        case pausing(until: Instant)
        /// The outcome is known, or the push is no longer needed.
        case ended
    }

    package enum Action: Hashable, Sendable {
        case none
        /// Add the push to its server's queue.
        case enqueue
        /// Send the push to the provider now. The dispatcher ignores an answer after the time `until`.
        case send(until: Instant)
        /// Get a new credential, then add the push to its server's queue.
        case renewCredentialAndEnqueue
        /// Call ``deadlineReached(now:)`` at the given instant.
        case arm(Instant)
        case finish(PushOutcome)
    }

    /// The pauses before the second try, the third try, and so on. The last try follows the last pause.
    package struct Pauses: Hashable, Sendable {
        package let durations: [Duration]

        package init(durations: [Duration]) { self.durations = durations }

        /// The pauses for calls. They are short, because a phone rings only for about half a minute: at first less than
        /// five seconds, then always five seconds.
        package static let call = Pauses(
            durations: [.milliseconds(300), .seconds(1), .seconds(3)] + Array(repeating: .seconds(5), count: 5))
        /// The pauses for a list of missed calls, which is less urgent than a call. After its last try, a list of
        /// missed calls is sent again when the device registers.
        package static let missedCalls = Pauses(durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60)])
        /// The pauses for notifications. They are the longest pauses, because a notification is lost after its last
        /// try.
        package static let notification = Pauses(
            durations: [.seconds(1), .seconds(5), .seconds(25), .seconds(60), .seconds(300)])
    }

    package private(set) var state = State.queued
    private let pauses: Pauses
    /// The time at which the push becomes useless.
    private let deadline: Instant
    private let answerTimeout: Duration
    /// The number of tries so far; a try that was refused because of an outdated credential does not count.
    package private(set) var tries = 0
    /// Whether the provider has refused a credential of the push as outdated, so that the daemon made a new credential.
    private(set) var hasRenewedCredential = false
    /// The reason for the end of a push whose new credential was also refused as outdated.
    static let refusedAgain = "the credential was refused again"
    /// Whether the push is no longer needed, so that the request in flight is its last try.
    package private(set) var isLast = false
    /// The outcome that is reported if the deadline passes before the next try.
    private var lastOutcome = PushOutcome.retry(after: nil)

    package init(pauses: Pauses, deadline: Instant, answerTimeout: Duration) {
        self.pauses = pauses
        self.deadline = deadline
        self.answerTimeout = answerTimeout
    }

    // MARK: What happened

    /// Handles a push that has left the queue and has a credential.
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

    /// Handles the result of a try: an answer, no answer, or no credential. The parameter `chance` is a random number
    /// from 0 to 1, so that pushes that failed together are retried at different times.
    package mutating func answered(_ outcome: PushOutcome, chance: Double, now: Instant) -> Action {
        switch state {
        // No request was sent, because the credential could not be made. A failure without a request is still treated
        // as a try, so that the push does not wait forever.
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

    /// Handles the timer that ``Action/arm(_:)`` has set.
    package mutating func deadlineReached(now: Instant) -> Action {
        switch state {
        case .pausing(let instant):
            guard now >= instant else { return .arm(instant) }
            state = .queued
            return .enqueue
        case .queued, .sent, .ended: return .none
        }
    }

    /// Handles a new push whose endpoint gets no push before `end`.
    package mutating func delayed(until end: Instant) -> Action {
        guard state == .queued else { return .none }
        guard end < deadline else { return self.end(.retry(after: nil)) }
        state = .pausing(until: end)
        return .arm(end)
    }

    /// Handles an answer after which the push is sent again with a smaller payload, without a pause. If the push is no
    /// longer needed, it is not sent again.
    ///
    /// - Returns: whether the push is sent again.
    package mutating func shrunk() -> Bool {
        guard state == .sent, !isLast else { return false }
        state = .queued
        return true
    }

    /// Withdraws the push, because the call is over or the device has registered. A request in flight is not withdrawn.
    /// The provider may have received it, so the daemon still handles the provider's answer.
    ///
    /// - Returns: true if the push ends now, because no request is in flight.
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
        // The actual pause is 75 to 125 percent of the planned pause.
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
    /// The pauses between the tries of a push; they depend on the kind of the push's message.
    var pauses: PushRetries.Pauses {
        switch message {
        case .incomingCall, .silent: .call
        case .missedCalls: .missedCalls
        case .notification: .notification
        }
    }
}
