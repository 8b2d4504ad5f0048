package import SIPGrammar
package import Timekeeping

/// A client transaction of a request other than INVITE that the daemon sent (RFC 3261 section 17.1.2).
///
/// ``NonInviteClientTransaction`` does no input or output: the transaction table stores bytes and deadlines, and
/// performs the returned actions.
package struct NonInviteClientTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response to the request has arrived yet. The state `trying` is followed by `proceeding`, `completed` or
        /// `ended` (timer F or a transport failure).
        case trying
        /// A provisional response to the request has arrived. The state `proceeding` is followed by `completed` or
        /// `ended` (timer F or a transport failure).
        case proceeding
        /// The final response has arrived, and its retransmissions are ignored. The state `completed` is followed by
        /// `ended` (timer K).
        case completed
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the request, and on unreliable transports send it again at timer E (`again`). Give up the request at
        /// timer F (`until`).
        case sendRequest(again: Instant?, until: Instant)
        /// Timer E has fired: send the request again now, and the next time at `next`.
        case sendAgain(next: Instant)
        /// Pass a provisional response to the engine.
        case tell
        /// Pass the final response to the core, and ignore its retransmissions until timer K.
        case tellFinal(until: Instant)
        /// Pass the final response to the core, and end. On reliable transports, no retransmissions of the final
        /// response follow.
        case tellFinalAndEnd
        case end
        /// Tell the core that no final response arrived in time, and end.
        case endTimedOut
        /// Tell the core that the transport has failed, and end.
        case endFailed
    }

    package private(set) var state = State.trying
    private let isReliable: Bool
    /// How often timer E (retransmissions of the request) has fired.
    private var repeats: UInt8 = 0

    package init(isReliable: Bool) { self.isReliable = isReliable }

    /// Starts the transaction: the request is sent, and the timers start.
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

    /// Handles timer E: the request is due to be sent again.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .trying:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.capped(doublings: repeats, from: now))
        case .proceeding: return .sendAgain(next: timers.slowest(from: now))
        case .completed, .ended: return .none
        }
    }

    /// Handles the return of an unreachable peer: the request is sent again now, and timer E starts again.
    package mutating func peerReturned(_ timers: TransactionTimers, now: Instant) -> Action {
        guard state == .trying, repeats > 0 else { return .none }
        repeats = 0
        return .sendAgain(next: timers.capped(doublings: 0, from: now))
    }

    /// Handles the timer of the present state: F or K.
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
