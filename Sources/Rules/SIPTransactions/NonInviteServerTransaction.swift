package import SIPGrammar
package import Timekeeping

/// A server transaction of a request other than INVITE that the daemon received (RFC 3261 section 17.2.2, changed by
/// RFC 4320).
///
/// ``NonInviteServerTransaction`` does no input or output: the transaction table stores bytes and deadlines, and
/// performs the returned actions.
package struct NonInviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response to the request was sent yet. The state `trying` is followed by `proceeding`, `completed`,
        /// `unanswered` or `ended`.
        case trying
        /// The server transaction has sent a 100. The state `proceeding` is followed by `completed`, `unanswered` or
        /// `ended`.
        case proceeding
        /// The final response was sent, and is sent again for each retransmission of the request. The state `completed`
        /// is followed by `ended` (timer J).
        case completed
        /// The core had no response in time, and no response will be sent (RFC 4320 section 4.2). The state
        /// `unanswered` is followed by `ended` (timer J).
        case unanswered
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the 100, and store it for retransmissions of the request.
        case sendProvisional
        /// Store the 100, and send it at the time `until` unless a final response comes first.
        case holdProvisional(until: Instant)
        /// Send the final response, and store it for retransmissions until timer J.
        case sendFinal(until: Instant)
        /// Send the final response, and end the transaction. On reliable transports, no retransmissions of the request
        /// follow.
        case sendFinalAndEnd
        /// Send the stored response to the request again.
        case repeatResponse
        /// Send no response, and ignore retransmissions of the request until timer J.
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

    /// The time at which the client's timer F fires; a transaction without a final response ends then.
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

    /// Sends the stored 100, which RFC 4320 allows from now on.
    package mutating func provisionalDue() -> Action {
        switch state {
        case .trying:
            state = .proceeding
            return .sendProvisional
        case .proceeding, .completed, .unanswered, .ended: return .none
        }
    }

    /// Handles timer J or, without a final response, the end of the client's timer F.
    package mutating func waitEnded() -> Action {
        switch state {
        case .trying, .proceeding, .completed, .unanswered:
            state = .ended
            return .end
        case .ended: return .none
        }
    }

    /// Sends or delays a provisional response. To a request other than INVITE, RFC 4320 section 4.1 allows only the
    /// provisional response 100, over UDP only after the client's timer E has reached T2. Over streams, the daemon
    /// delays a 100 equally, because nearly every request gets its final response earlier.
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
