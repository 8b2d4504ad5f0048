package import SIPGrammar
package import Timekeeping

/// A request other than INVITE that the daemon sent (RFC 3261 section 17.1.2).
///
/// This type does no input or output: the table keeps the bytes and the deadlines, and runs the action of each event.
package struct NonInviteClientTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response yet. The next state is `proceeding`, `completed` or `ended` (timer F, transport).
        case trying
        /// A provisional response was received. The next state is `completed` or `ended` (timer F, transport).
        case proceeding
        /// The final response was received; its retransmissions are absorbed. The next state is `ended` (timer K).
        case completed
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the request. Resend the request at timer E on unreliable transports, and give up at timer F.
        case sendRequest(again: Instant?, until: Instant)
        /// Timer E fired: resend the request, and resend it again at `next`.
        case sendAgain(next: Instant)
        /// Pass a provisional response to the core.
        case tell
        /// Pass the final response to the core, and absorb its retransmissions until timer K.
        case tellFinal(until: Instant)
        /// Pass the final response to the core and end.
        case tellFinalAndEnd
        case end
        /// Notify the core that no final response arrived in time, and end.
        case endTimedOut
        /// Notify the core that the transport failed, and end.
        case endFailed
    }

    package private(set) var state = State.trying
    private let isReliable: Bool
    /// The number of times that timer E has fired.
    private var repeats: UInt8 = 0

    package init(isReliable: Bool) { self.isReliable = isReliable }

    /// Handles the first event: the core starts the transaction.
    package func started(_ timers: TransactionTimers, now: Instant) -> Action {
        .sendRequest(
            again: isReliable ? nil : timers.capped(doublings: 0, from: now), until: timers.patience(from: now))
    }

    package mutating func responseReceived(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .trying, .proceeding:
            if status.isProvisional {
                state = .proceeding
                return .tell
            }
            state = isReliable ? .ended : .completed
            return isReliable ? .tellFinalAndEnd : .tellFinal(until: timers.quiet(from: now))
        case .completed, .ended: return .none
        }
    }

    /// Handles timer E.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .trying:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.capped(doublings: repeats, from: now))
        case .proceeding: return .sendAgain(next: timers.slowest(from: now))
        case .completed, .ended: return .none
        }
    }

    /// Sends the next copy of the request now and restarts timer E, because the peer is reachable again.
    package mutating func peerReturned(_ timers: TransactionTimers, now: Instant) -> Action {
        guard state == .trying, repeats > 0 else { return .none }
        repeats = 0
        return .sendAgain(next: timers.capped(doublings: 0, from: now))
    }

    /// Handles timer F or K, depending on the state.
    package mutating func waitEnded() -> Action {
        switch state {
        case .trying, .proceeding:
            state = .ended
            return .endTimedOut
        case .completed:
            state = .ended
            return .end
        case .ended: return .none
        }
    }

    package mutating func transportFailed() -> Action {
        switch state {
        case .trying, .proceeding:
            state = .ended
            return .endFailed
        case .completed:
            state = .ended
            return .end
        case .ended: return .none
        }
    }
}
