package import SIPGrammar
package import Timekeeping

/// A request other than INVITE that the daemon received (RFC 3261 section 17.2.2 as changed by RFC 4320).
///
/// This type is pure: the table keeps the response's bytes and the deadlines, and runs the action of each event.
package struct NonInviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// Nothing was sent yet. Next: `proceeding`, `completed`, `unanswered`, `ended`.
        case trying
        /// A 100 was sent. Next: `completed`, `unanswered`, `ended`.
        case proceeding
        /// The final response was sent, and each retransmission of the request gets it again. Next: `ended` (timer J).
        case completed
        /// The core had no answer in time, so no response is sent (RFC 4320 section 4.2). Next: `ended` (timer J).
        case unanswered
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the 100 and keep it for retransmissions.
        case sendProvisional
        /// Keep the 100 and send it at `until`, unless a final response comes first.
        case holdProvisional(until: Instant)
        /// Send the final response and keep it until timer J.
        case sendFinal(until: Instant)
        /// Send the final response and keep nothing.
        case sendFinalAndEnd
        /// Send the kept response.
        case repeatResponse
        /// Send nothing, and absorb retransmissions until timer J.
        case stayQuiet(until: Instant)
        case end
    }

    package private(set) var state = State.trying
    private let isReliable: Bool
    private let arrival: Instant

    package init(isReliable: Bool, now: Instant) {
        self.isReliable = isReliable
        arrival = now
    }

    /// When the client's timer F fires and the client gives up. A transaction without an answer ends then.
    package func patienceEnd(_ timers: TransactionTimers) -> Instant { timers.patience(from: arrival) }

    package func requestRepeated() -> Action {
        switch state {
        case .proceeding, .completed: .repeatResponse
        case .trying, .unanswered, .ended: .none
        }
    }

    package mutating func respond(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .trying, .proceeding:
            if status.isProvisional { return provisional(status, timers, now: now) }
            if status == .requestTimeout { return giveUp(timers, now: now) }
            state = isReliable ? .ended : .completed
            return isReliable ? .sendFinalAndEnd : .sendFinal(until: timers.patience(from: now))
        case .completed, .unanswered, .ended: return .none
        }
    }

    /// The time has come to send the held 100.
    package mutating func provisionalDue() -> Action {
        switch state {
        case .trying:
            state = .proceeding
            return .sendProvisional
        case .proceeding, .completed, .unanswered, .ended: return .none
        }
    }

    /// Timer J fired, or the client's timer F would fire before an answer.
    package mutating func waitEnded() -> Action {
        switch state {
        case .trying, .proceeding, .completed, .unanswered:
            state = .ended
            return .end
        case .ended: return .none
        }
    }

    /// The only provisional response to such a request is 100, sent when the client's timer E has reached T2 (RFC 4320
    /// section 4.1). Over UDP an earlier 100 is not allowed. Over a stream nearly every request is answered by then.
    private mutating func provisional(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        guard status == .trying, state == .trying else { return .none }
        let allowed = timers.provisionalAllowed(from: arrival)
        guard now >= allowed else { return .holdProvisional(until: allowed) }
        state = .proceeding
        return .sendProvisional
    }

    private mutating func giveUp(_ timers: TransactionTimers, now: Instant) -> Action {
        state = isReliable ? .ended : .unanswered
        return isReliable ? .end : .stayQuiet(until: timers.patience(from: now))
    }
}
