package import Registration
package import SIPGrammar
package import SIPTransactions

/// Names one fork; never used twice in a process.
package struct ForkID: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The response context of one proxied request (RFC 3261 section 16.7): its branches, and which response goes upstream.
///
/// Pure: knows no bytes and no flows. Feed it what happened to a branch; carry out the orders it returns.
package struct Fork: Sendable {
    package enum Phase: Hashable, Sendable {
        /// No final response was sent upstream. Next: any other.
        case proceeding
        /// A branch declined for everybody (6xx); the others are being cancelled. Next: `answered`, `ended`.
        case declined
        /// The caller gave up. Next: `answered` (a 2xx that crossed the CANCEL), `ended`.
        case cancelled
        /// A 2xx went upstream; later 2xx of other branches follow it. Next: `ended`.
        case answered
        /// The final response went upstream and no branch is left.
        case ended
    }

    /// Why a branch is cancelled, which becomes the CANCEL's Reason (RFC 3326).
    package enum CancelReason: Hashable, Sendable {
        case answeredElsewhere
        case declinedElsewhere(Status)
        case callerCancelled
        /// An operator ended the call.
        case dismissed(Status)
    }

    package enum Order: Sendable {
        /// Send this response upstream.
        case relay(SIPResponse)
        /// The same for a challenge, with those of other branches: the caller can answer all at once (RFC 3261 section
        /// 16.7 item 7).
        case relayChallenge(SIPResponse, others: [SIPResponse])
        /// Send a response of our own upstream.
        case respond(Status)
        /// Send nothing at all: a non-INVITE that no branch answered (RFC 4320 section 4.2).
        case giveUp
        case cancel(ClientTransactionID, CancelReason)
        /// This branch no longer waits for its device; its push, if not sent yet, is dropped.
        case dropSleeper(branch: Int)
    }

    package let isInvite: Bool
    package private(set) var phase = Phase.proceeding
    /// A 2xx went upstream, whatever the phase is now.
    package private(set) var wasAnswered = false
    package var branches: [ForkBranch]
    private var best: (status: Status, response: SIPResponse?)?
    /// Responses 401 and 407 besides the best.
    private var challenges: [SIPResponse] = []

    package init(isInvite: Bool, branches: [ForkBranch]) {
        self.isInvite = isInvite
        self.branches = branches
    }

    /// Branches may still be started: no final response was chosen.
    package var acceptsBranches: Bool { phase == .proceeding }

    package func branch(of client: ClientTransactionID) -> Int? {
        branches.firstIndex { $0.state == .calling(client) }
    }

    package func sleepingBranch(of device: BindingID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isSleeping }
    }

    // MARK: What happened

    /// A response of 101 to 199.
    package mutating func provisionalReceived(_ response: SIPResponse, on branch: Int) -> [Order] {
        noteDevice(branch, response.status)
        return phase == .proceeding ? [.relay(response)] : []
    }

    /// A 2xx; every one to an INVITE goes upstream (RFC 3261 section 16.7 item 5).
    package mutating func successReceived(_ response: SIPResponse, on branch: Int) -> [Order] {
        noteDevice(branch, response.status)
        branches[branch].state = .ended
        branches[branch].end = .succeeded
        switch phase {
        case .proceeding, .declined, .cancelled:
            phase = .answered
            wasAnswered = true
            return [.relay(response)] + endOthers(.answeredElsewhere) + closeIfDone()
        case .answered:
            return (isInvite ? [.relay(response)] : []) + closeIfDone()
        case .ended:
            // A retransmission by the device, which waits for the caller's ACK.
            return isInvite ? [.relay(response)] : []
        }
    }

    /// A final response of 300 or more, received or made up for a branch that failed (`response` is `nil` then).
    package mutating func failed(_ branch: Int, with status: Status, response: SIPResponse?) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        if response != nil { noteDevice(branch, status) }
        branches[branch].state = .ended
        if branches[branch].end == nil { branches[branch].end = response == nil ? .gaveUp(status) : .failed(status) }
        choose(status, response)
        var orders: [Order] = []
        if status.statusClass == 6, phase == .proceeding {
            phase = .declined
            orders = endOthers(.declinedElsewhere(status))
        }
        return orders + closeIfDone()
    }

    /// A branch ended without any response that may be passed on: a non-INVITE that timed out.
    package mutating func silenced(_ branch: Int) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        branches[branch].state = .ended
        branches[branch].end = .silent
        return closeIfDone()
    }

    /// The caller's CANCEL.
    package mutating func cancelReceived() -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .cancelled
        return endOthers(.callerCancelled) + closeIfDone()
    }

    /// An operator ends it: the caller gets this status when the phones that ring have been cancelled.
    ///
    /// It has to be better than the 487 with which they answer that.
    package mutating func dismissed(with status: Status) -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .declined
        best = (status, nil)
        return endOthers(.dismissed(status)) + closeIfDone()
    }

    /// The time to wait for devices is over (R18).
    package mutating func deadlineReached() -> [Order] {
        let sleepers = branches.indices.filter { branches[$0].isSleeping }
        return sleepers.flatMap { index in
            [.dropSleeper(branch: index)] + failed(index, with: .temporarilyUnavailable, response: nil)
        }
    }

    // MARK: Choosing

    private mutating func noteDevice(_ branch: Int, _ status: Status) {
        guard branches.indices.contains(branch), status.code >= 180, status != .requestTimeout,
            status != .serviceUnavailable
        else { return }
        branches[branch].deviceKnows = true
    }

    /// Ends sleeping branches at once and orders the CANCEL of those that were sent.
    private mutating func endOthers(_ reason: CancelReason) -> [Order] {
        var orders: [Order] = []
        for index in branches.indices {
            if !branches[index].isEnded, branches[index].end == nil { branches[index].end = .cancelled(reason) }
            switch branches[index].state {
            case .sleeping:
                orders.append(.dropSleeper(branch: index))
                branches[index].state = .ended
            case .resolving:
                branches[index].state = .ended
            case .calling(let client):
                if isInvite { orders.append(.cancel(client, reason)) }
            case .ended: break
            }
        }
        return orders
    }

    private mutating func closeIfDone() -> [Order] {
        guard phase != .ended, branches.allSatisfy(\.isEnded) else { return [] }
        defer { phase = .ended }
        switch phase {
        case .answered, .ended: return []
        case .cancelled:
            guard let best, best.status.statusClass == 6, let response = best.response else {
                return [.respond(.requestTerminated)]
            }
            return [.relay(response)]
        case .proceeding, .declined:
            guard let best else { return isInvite ? [.respond(.requestTimeout)] : [.giveUp] }
            // A 503 speaks of one next hop, not of this proxy (RFC 3261 section 16.7 item 6).
            if best.status == .serviceUnavailable { return [.respond(.serverError)] }
            if let response = best.response {
                let isChallenge = Self.isChallenge(best.status) && !challenges.isEmpty
                return [isChallenge ? .relayChallenge(response, others: challenges) : .relay(response)]
            }
            if best.status == .requestTimeout, !isInvite { return [.giveUp] }
            return [.respond(best.status)]
        }
    }

    private mutating func choose(_ status: Status, _ response: SIPResponse?) {
        var other = response
        if isBetter(status) {
            other = best.flatMap { Self.isChallenge($0.status) ? $0.response : nil }
            best = (status, response)
        } else if !Self.isChallenge(status) {
            other = nil
        }
        if let other { challenges.append(other) }
    }

    private static func isChallenge(_ status: Status) -> Bool {
        status == .unauthorized || status == .proxyAuthenticationRequired
    }

    /// 6xx before all; then the lowest class; within 4xx those that tell the caller how to go on.
    private func isBetter(_ status: Status) -> Bool {
        guard let best else { return true }
        return Self.rank(status) < Self.rank(best.status)
    }

    private static func rank(_ status: Status) -> Int {
        if status.statusClass == 6 { return 0 }
        let helpful: [UInt16] = [401, 407, 415, 420, 484]
        let within: Int
        switch status.code {
        case let code where helpful.contains(code): within = 0
        // An answer of a device says more than a time-out or a device that never woke.
        case 408, 480, 487, 503: within = 2
        default: within = 1
        }
        return Int(status.statusClass) * 10 + within
    }
}
