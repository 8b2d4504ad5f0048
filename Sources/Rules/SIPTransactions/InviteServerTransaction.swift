package import SIPGrammar
package import Timekeeping

/// An INVITE that the daemon received (RFC 3261 section 17.2.1, RFC 6026 section 7.1).
///
/// This type does no input or output: the table keeps the response's bytes and the deadlines, and runs the action of
/// each event.
package struct InviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// Only provisional responses were sent; the core decides how long this state lasts. The next state is
        /// `completed` or `accepted`.
        case proceeding
        /// A 3xx to 6xx was sent, and the transaction waits for its ACK. The next state is `confirmed` or `ended`
        /// (timer H).
        case completed
        /// A 2xx was sent; the core handles its ACK. The next state is `ended` (timer L).
        case accepted
        /// The ACK was received; its retransmissions are absorbed. The next state is `ended` (timer I).
        case confirmed
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send a 100. The table does not store the 100, because the core can write another.
        case sendTrying
        /// Send a new provisional response and keep it for retransmissions.
        case sendProvisional
        /// Send a 2xx. The 2xx is not kept, because the callee itself resends it until the ACK.
        case sendSuccess
        /// Send the first 2xx, drop the provisional response, and wait until timer L.
        case sendFirstSuccess(until: Instant)
        /// Send a 3xx to 6xx and keep this response. Resend the response at timer G on unreliable transports, and give
        /// up at timer H.
        case sendFailure(again: Instant?, until: Instant)
        /// Send the stored response, if there is one.
        case repeatResponse
        /// Let the core write the 100 again.
        case repeatTrying
        /// Timer G fired: resend the stored response, and resend it again at `next`.
        case sendAgain(next: Instant)
        /// Drop the stored response, and absorb ACKs until timer I.
        case absorb(until: Instant)
        case end
        /// Timer H fired: notify the core that no ACK arrived, and end.
        case endUnacknowledged
    }

    package private(set) var state = State.proceeding
    private let isReliable: Bool
    /// Whether the last provisional response was a 100.
    private var isTrying = false
    /// The number of times that timer G has fired.
    private var repeats: UInt8 = 0

    package init(isReliable: Bool) { self.isReliable = isReliable }

    package func requestRepeated() -> Action {
        switch state {
        case .proceeding: isTrying ? .repeatTrying : .repeatResponse
        case .completed: .repeatResponse
        case .accepted, .confirmed, .ended: .none
        }
    }

    package mutating func respond(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .proceeding:
            if status.isProvisional {
                isTrying = status == .trying
                return isTrying ? .sendTrying : .sendProvisional
            }
            if status.isSuccess {
                state = .accepted
                return .sendFirstSuccess(until: timers.patience(from: now))
            }
            state = .completed
            return .sendFailure(
                again: isReliable ? nil : timers.capped(doublings: 0, from: now), until: timers.patience(from: now))
        case .accepted: return status.isSuccess ? .sendSuccess : .none
        case .completed, .confirmed, .ended: return .none
        }
    }

    package mutating func acknowledged(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .completed:
            state = isReliable ? .ended : .confirmed
            return isReliable ? .end : .absorb(until: timers.quiet(from: now))
        case .proceeding, .accepted, .confirmed, .ended: return .none
        }
    }

    /// Handles timer G.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .completed:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.capped(doublings: repeats, from: now))
        case .proceeding, .accepted, .confirmed, .ended: return .none
        }
    }

    /// Handles timer H, I or L, depending on the state.
    package mutating func waitEnded() -> Action {
        switch state {
        case .completed:
            state = .ended
            return .endUnacknowledged
        case .accepted, .confirmed:
            state = .ended
            return .end
        case .proceeding, .ended: return .none
        }
    }
}
