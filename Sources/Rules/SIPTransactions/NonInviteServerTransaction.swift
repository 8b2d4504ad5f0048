package import SIPGrammar
package import Timekeeping

/// A request other than INVITE that the daemon received (RFC 3261 section 17.2.2 as changed by RFC 4320).
///
/// This type does no input or output: the table keeps the response's bytes and the deadlines, and runs the action of
/// each event.
package struct NonInviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response was sent yet. The next state is `proceeding`, `completed`, `unanswered` or `ended`.
        case trying
        /// A 100 was sent. The next state is `completed`, `unanswered` or `ended`.
        case proceeding
        /// The final response was sent, and each retransmission of the request gets it again. The next state is `ended`
        /// (timer J).
        case completed
        /// The core had no answer in time, so no response is sent (RFC 4320 section 4.2). The next state is `ended`
        /// (timer J).
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
        /// Send the final response and do not keep it.
        case sendFinalAndEnd
        /// Send the kept response.
        case repeatResponse
        /// Send no response, and absorb retransmissions until timer J.
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

    /// The time at which the client's timer F fires and the client gives up. A transaction without a response ends
    /// then.
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

    /// Sends the held 100, because its time has come.
    package mutating func provisionalDue() -> Action {
        switch state {
        case .trying:
            state = .proceeding
            return .sendProvisional
        case .proceeding, .completed, .unanswered, .ended: return .none
        }
    }

    /// Handles timer J, or the time limit for a response, which is the client's timer F.
    package mutating func waitEnded() -> Action {
        switch state {
        case .trying, .proceeding, .completed, .unanswered:
            state = .ended
            return .end
        case .ended: return .none
        }
    }

    /// Sends or holds a provisional response. Only a 100 is sent, when the client's timer E has reached T2 (RFC 4320
    /// section 4.1). Over UDP, the RFC forbids an earlier 100. Over a stream, nearly every request is answered before
    /// that time.
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
