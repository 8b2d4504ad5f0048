package import SIPGrammar
package import Timekeeping

/// A client transaction of an INVITE that the daemon sent (RFC 3261 section 17.1.1, RFC 6026 section 7.2), with its
/// CANCEL (section 9.1).
///
/// ``InviteClientTransaction`` does no input or output: the transaction table stores bytes and deadlines, and performs
/// the returned actions.
package struct InviteClientTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response to the INVITE has arrived yet. If `cancelWanted` is true, the CANCEL follows the first
        /// provisional response, because RFC 3261 forbids an earlier CANCEL. The state `calling` is followed by
        /// `proceeding`, `completed`, `accepted` or `ended` (timer B or a transport failure).
        case calling(cancelWanted: Bool)
        /// A provisional response has arrived, and timer C runs. The state `proceeding` is followed by `cancelling`,
        /// `completed`, `accepted` or `ended` (transport failure).
        case proceeding
        /// The CANCEL of the INVITE was sent. The state `cancelling` is followed by `completed`, `accepted` or `ended`
        /// (no final response within 64*T1, or a transport failure).
        case cancelling
        /// A 3xx to 6xx has arrived and was acknowledged. The state `completed` is followed by `ended` (timer D).
        case completed
        /// A 2xx has arrived, and more 2xx may follow from forks behind the next hop. The state `accepted` is followed
        /// by `ended` (timer M).
        case accepted
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the INVITE, and on unreliable transports send it again at timer A (`again`). Give up the INVITE at
        /// timer B (`until`).
        case sendRequest(again: Instant?, until: Instant)
        /// Timer A has fired: send the INVITE again now, and the next time at `next`.
        case sendAgain(next: Instant)
        /// Pass a response to the INVITE to the core.
        case tell
        /// Pass the first provisional response to the core, and start timer C.
        case tellProvisional(until: Instant)
        /// Pass a further provisional response other than 100 to the engine, and restart timer C (RFC 3261).
        case tellRinging(until: Instant)
        /// Pass the first provisional response to the core, and send the delayed CANCEL.
        case tellProvisionalAndCancel(until: Instant)
        /// Pass the first 2xx to the core, and wait for further 2xx until timer M.
        case tellSuccess(until: Instant)
        /// Send ACK for the final response, and pass the response to the engine. Acknowledge the retransmissions of the
        /// final response until timer D fires.
        case acknowledgeAndTell(until: Instant)
        /// Acknowledge the final response, pass it to the core, and end. On reliable transports, no retransmissions of
        /// the final response follow.
        case acknowledgeTellAndEnd
        /// Send the ACK again, because the final response was retransmitted.
        case acknowledgeAgain
        /// Keep the Reason values for the CANCEL until the first provisional response arrives.
        case holdCancel
        /// Send the CANCEL, and give up if no final response arrives before the time `until`.
        case sendCancel(until: Instant)
        /// Tell the core that timer C has fired.
        case tellRangTooLong
        case end
        /// Tell the core that no final response arrived in time, and end.
        case endTimedOut
        /// Tell the core that the transport has failed, and end.
        case endFailed
    }

    package private(set) var state = State.calling(cancelWanted: false)
    private let isReliable: Bool
    /// How often timer A (retransmissions of the INVITE) has fired.
    private var repeats: UInt8 = 0

    package init(isReliable: Bool) { self.isReliable = isReliable }

    /// Creates the transaction of an INVITE whose 2xx was forwarded before the daemon restarted.
    package static func accepted(isReliable: Bool) -> InviteClientTransaction {
        var machine = InviteClientTransaction(isReliable: isReliable)
        machine.state = .accepted
        return machine
    }

    /// Starts the transaction: the INVITE is sent, and the timers start.
    package func started(_ timers: TransactionTimers, now: Instant) -> Action {
        .sendRequest(
            again: isReliable ? nil : timers.uncapped(doublings: 0, from: now), until: timers.patience(from: now))
    }

    package mutating func responseReceived(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .calling(let cancelWanted):
            guard status.isProvisional else { return finalReceived(status, timers, now: now) }
            state = cancelWanted ? .cancelling : .proceeding
            return cancelWanted
                ? .tellProvisionalAndCancel(until: timers.patience(from: now))
                : .tellProvisional(until: timers.ringEnd(from: now))
        case .proceeding:
            guard status.isProvisional else { return finalReceived(status, timers, now: now) }
            return status == .trying ? .tell : .tellRinging(until: timers.ringEnd(from: now))
        case .cancelling:
            return status.isProvisional ? .tell : finalReceived(status, timers, now: now)
        case .completed: return status.isFinal && !status.isSuccess ? .acknowledgeAgain : .none
        case .accepted: return status.isSuccess ? .tell : .none
        case .ended: return .none
        }
    }

    /// Handles the wish to cancel the INVITE. The parameter `peerHasIt` says that the peer has the INVITE, although no
    /// response has arrived: the peer has refused a copy with 482.
    package mutating func cancelRequested(
        peerHasIt: Bool = false, _ timers: TransactionTimers, now: Instant
    ) -> Action {
        switch state {
        case .calling(let cancelWanted) where !peerHasIt:
            state = .calling(cancelWanted: true)
            return cancelWanted ? .none : .holdCancel
        case .calling, .proceeding:
            state = .cancelling
            return .sendCancel(until: timers.patience(from: now))
        case .cancelling, .completed, .accepted, .ended: return .none
        }
    }

    /// Handles timer A: the INVITE is due to be sent again.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .calling:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.uncapped(doublings: repeats, from: now))
        case .proceeding, .cancelling, .completed, .accepted, .ended: return .none
        }
    }

    /// Handles the return of an unreachable peer: the INVITE is sent again now, and timer A starts again.
    package mutating func peerReturned(_ timers: TransactionTimers, now: Instant) -> Action {
        guard case .calling = state, repeats > 0 else { return .none }
        repeats = 0
        return .sendAgain(next: timers.uncapped(doublings: 0, from: now))
    }

    /// Handles the timer of the present state: B, C, D or M, or the time limit after a CANCEL.
    package mutating func waitEnded() -> Action {
        switch state {
        case .calling, .cancelling:
            state = .ended
            return .endTimedOut
        case .completed, .accepted:
            state = .ended
            return .end
        case .proceeding: return .tellRangTooLong
        case .ended: return .none
        }
    }

    package mutating func transportFailed() -> Action {
        switch state {
        case .calling, .proceeding, .cancelling:
            state = .ended
            return .endFailed
        case .completed:
            state = .ended
            return .end
        case .accepted, .ended: return .none  // a 2xx of another fork may arrive on another flow
        }
    }

    private mutating func finalReceived(_ status: Status, _ timers: TransactionTimers, now: Instant) -> Action {
        if status.isSuccess {
            state = .accepted
            return .tellSuccess(until: timers.patience(from: now))
        }
        state = isReliable ? .ended : .completed
        return isReliable ? .acknowledgeTellAndEnd : .acknowledgeAndTell(until: timers.patience(from: now))
    }
}
