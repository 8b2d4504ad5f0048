package import SIPGrammar
package import Timekeeping

/// A server transaction of an INVITE that the daemon received (RFC 3261 section 17.2.1, RFC 6026 section 7.1).
///
/// ``InviteServerTransaction`` does no input or output: the transaction table stores bytes and deadlines, and performs
/// the returned actions.
package struct InviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No final response to the INVITE was sent yet. No timer ends the state `proceeding`. The state `proceeding`
        /// is followed by `completed` or `accepted`.
        case proceeding
        /// A 3xx to 6xx was sent, and its ACK has not arrived yet. The state `completed` is followed by `confirmed` or
        /// `ended` (timer H).
        case completed
        /// A 2xx was sent, and the core handles its ACK. The state `accepted` is followed by `ended` (timer L).
        case accepted
        /// The ACK has arrived, and retransmitted ACKs are ignored. The state `confirmed` is followed by `ended` (timer
        /// I).
        case confirmed
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send a 100, which the transaction table does not store, because the engine can write the 100 again.
        case sendTrying
        /// Send a new provisional response, and store the response for retransmissions of the INVITE.
        case sendProvisional
        /// Send a further 2xx to the caller. The transaction table does not store the 2xx, because the callee
        /// retransmits the 2xx until the ACK arrives.
        case sendSuccess
        /// Send the first 2xx, and wait for further 2xx until timer L. The transaction table drops the stored
        /// provisional response.
        case sendFirstSuccess(until: Instant)
        /// Send a response from 300 to 699, and store the response for retransmissions. On unreliable transports, send
        /// the final response again at timer G (`again`). Give up waiting for the ACK of the final response at timer H
        /// (`until`).
        case sendFailure(again: Instant?, until: Instant)
        /// Send the stored response again, if a response is stored.
        case repeatResponse
        /// Let the core write and send the 100 again.
        case repeatTrying
        /// Timer G has fired: send the stored response again now, and the next time at `next`.
        case sendAgain(next: Instant)
        /// Drop the stored response, and ignore ACKs until timer I fires.
        case absorb(until: Instant)
        case end
        /// Timer H has fired: tell the core that no ACK arrived, and end.
        case endUnacknowledged
    }

    package private(set) var state = State.proceeding
    private let isReliable: Bool
    /// Whether the last provisional response was a 100.
    private var isTrying = false
    /// How often timer G (retransmissions of the final response) has fired.
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

    /// Handles timer G: the final response is due to be sent again.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .completed:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.capped(doublings: repeats, from: now))
        case .proceeding, .accepted, .confirmed, .ended: return .none
        }
    }

    /// Handles the timer of the present state: H, I or L.
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
