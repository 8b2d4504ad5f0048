package import SIPGrammar
package import Timekeeping

/// An INVITE as we were asked it (RFC 3261 section 17.2.1, RFC 6026 section 7.1).
///
/// Pure: the table keeps the response's bytes and the deadlines, and runs the action each event gives.
package struct InviteServerTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// Provisional responses only; lasts as long as the core likes. Next: `completed`, `accepted`.
        case proceeding
        /// A 3xx to 6xx was sent and waits for its ACK. Next: `confirmed`, `ended` (timer H).
        case completed
        /// A 2xx was sent; its ACK is the core's. Next: `ended` (timer L).
        case accepted
        /// The ACK came; its retransmissions are absorbed. Next: `ended` (timer I).
        case confirmed
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send a 100. It can be written again, so it is not kept.
        case sendTrying
        /// Send a new provisional response and keep it for retransmissions.
        case sendProvisional
        /// Send a 2xx; the peers repeat it end to end, so it is not kept.
        case sendSuccess
        /// The first 2xx: forget the provisional one and wait until timer L.
        case sendFirstSuccess(until: Instant)
        /// Send a 3xx to 6xx, keep it, repeat it at timer G (unreliable transports), give up at timer H.
        case sendFailure(again: Instant?, until: Instant)
        /// Send what is kept, if anything.
        case repeatResponse
        /// Let the core write the 100 again.
        case repeatTrying
        /// Timer G: send what is kept, and once more at that time.
        case sendAgain(next: Instant)
        /// Forget the response, absorb ACKs until timer I.
        case absorb(until: Instant)
        case end
        /// Timer H: tell the core that no ACK came, and end.
        case endUnacknowledged
    }

    package private(set) var state = State.proceeding
    private let isReliable: Bool
    /// The last provisional response was a 100.
    private var isTrying = false
    /// How often timer G has fired.
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

    /// Timer G.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .completed:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.capped(doublings: repeats, from: now))
        case .proceeding, .accepted, .confirmed, .ended: return .none
        }
    }

    /// Timer H, I or L, whichever the state has.
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
