package import SIPGrammar
package import Timekeeping

/// An INVITE that the daemon sent (RFC 3261 section 17.1.1, RFC 6026 section 7.2), with its cancellation (section 9.1).
///
/// This type does no input or output: the table keeps the bytes and the deadlines, and runs the action of each event.
package struct InviteClientTransaction: Sendable {
    package enum State: Equatable, Sendable {
        /// No response yet. `cancelWanted` waits for the first response, because no CANCEL may be sent before the first
        /// response. The next state is `proceeding`, `completed`, `accepted` or `ended` (timer B, transport).
        case calling(cancelWanted: Bool)
        /// A provisional response was received; timer C runs. The next state is `cancelling`, `completed`, `accepted`
        /// or `ended` (transport).
        case proceeding
        /// A CANCEL was sent. The next state is `completed`, `accepted` or `ended` (64*T1 without a final response,
        /// transport).
        case cancelling
        /// A 3xx to 6xx was received and acknowledged. The next state is `ended` (timer D).
        case completed
        /// A 2xx was received, and more 2xx may follow from forks behind the next hop. The next state is `ended` (timer
        /// M).
        case accepted
        case ended
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the request. Resend the request at timer A on unreliable transports, and give up at timer B.
        case sendRequest(again: Instant?, until: Instant)
        /// Timer A fired: resend the request, and resend it again at `next`.
        case sendAgain(next: Instant)
        /// Pass the response to the core.
        case tell
        /// Pass the first provisional response to the core; timer C starts.
        case tellProvisional(until: Instant)
        /// Pass a further provisional response other than 100 to the core; timer C restarts.
        case tellRinging(until: Instant)
        /// Pass the first provisional response to the core, then send the CANCEL that waited for it.
        case tellProvisionalAndCancel(until: Instant)
        /// Pass the first 2xx to the core, and wait for further 2xx until timer M.
        case tellSuccess(until: Instant)
        /// Acknowledge the response, pass the response to the core, and acknowledge its retransmissions until timer D.
        case acknowledgeAndTell(until: Instant)
        /// Acknowledge the response, pass the response to the core, and end. Reliable transports have no
        /// retransmissions.
        case acknowledgeTellAndEnd
        /// Send the same ACK again.
        case acknowledgeAgain
        /// Keep the Reason values of the CANCEL until the first provisional response.
        case holdCancel
        /// Send the CANCEL, and give up if no final response arrives by `until`.
        case sendCancel(until: Instant)
        /// Notify the core that timer C has fired.
        case tellRangTooLong
        case end
        /// Notify the core that no final response arrived in time, and end.
        case endTimedOut
        /// Notify the core that the transport failed, and end.
        case endFailed
    }

    package private(set) var state = State.calling(cancelWanted: false)
    private let isReliable: Bool
    /// The number of times that timer A has fired.
    private var repeats: UInt8 = 0

    package init(isReliable: Bool) { self.isReliable = isReliable }

    /// Creates a transaction whose 2xx an earlier run of the program forwarded.
    package static func accepted(isReliable: Bool) -> InviteClientTransaction {
        var machine = InviteClientTransaction(isReliable: isReliable)
        machine.state = .accepted
        return machine
    }

    /// Handles the first event: the core starts the transaction.
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

    package mutating func cancelRequested(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .calling(let cancelWanted):
            state = .calling(cancelWanted: true)
            return cancelWanted ? .none : .holdCancel
        case .proceeding:
            state = .cancelling
            return .sendCancel(until: timers.patience(from: now))
        case .cancelling, .completed, .accepted, .ended: return .none
        }
    }

    /// Handles timer A.
    package mutating func resendDue(_ timers: TransactionTimers, now: Instant) -> Action {
        switch state {
        case .calling:
            repeats = min(repeats + 1, 63)
            return .sendAgain(next: timers.uncapped(doublings: repeats, from: now))
        case .proceeding, .cancelling, .completed, .accepted, .ended: return .none
        }
    }

    /// Sends the next copy of the INVITE now and restarts timer A, because the peer is reachable again.
    package mutating func peerReturned(_ timers: TransactionTimers, now: Instant) -> Action {
        guard case .calling = state, repeats > 0 else { return .none }
        repeats = 0
        return .sendAgain(next: timers.uncapped(doublings: 0, from: now))
    }

    /// Handles timer B, C, D or M, or the time limit after a CANCEL, depending on the state.
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
