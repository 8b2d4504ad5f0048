package import Addressing
import Bytes
import Registration
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
        /// The device has the request by another way.
        case moved
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
    /// The caller's CANCEL said that somebody else, whom we do not know, has the call.
    package private(set) var wasAnsweredElsewhere = false
    package var branches: [ForkBranch]
    private var best: (status: Status, response: SIPResponse?)?
    /// Responses 401 and 407 besides the best.
    private var challenges: [SIPResponse] = []

    package init(isInvite: Bool, branches: [ForkBranch]) {
        self.isInvite = isInvite
        self.branches = branches
    }

    /// Somebody has the call.
    package var isAnswered: Bool { wasAnswered || wasAnsweredElsewhere }

    /// Branches may still be started: no final response was chosen.
    package var acceptsBranches: Bool { phase == .proceeding }

    package func branch(of client: ClientTransactionID) -> Int? {
        branches.firstIndex { $0.state == .calling(client) }
    }

    package func sleepingBranch(of device: DeviceID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isSleeping }
    }

    // MARK: What happened

    /// A response of 101 to 199.
    package mutating func provisionalReceived(_ response: SIPResponse, on branch: Int) -> [Order] {
        noteDevice(branch, response.status)
        return phase == .proceeding ? [.relay(response)] : []
    }

    /// A 2xx; every one to an INVITE goes upstream (RFC 3261 section 16.7 item 5), also that of a transaction from before
    /// the device moved: the later one is cancelled then.
    package mutating func successReceived(
        _ response: SIPResponse, on branch: Int, from client: ClientTransactionID? = nil
    ) -> [Order] {
        noteDevice(branch, response.status)
        let state = branches[branch].state
        branches[branch].state = .ended
        branches[branch].former.removeAll { $0 == client }
        let orders = relayed(response, on: branch)
        switch state {
        case .calling(let present) where client != nil && present != client:
            return orders + [.cancel(present, .moved)]
        case .sleeping: return orders + [.dropSleeper(branch: branch)]
        case .calling, .resolving, .ended: return orders
        }
    }

    private mutating func relayed(_ response: SIPResponse, on branch: Int) -> [Order] {
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

    /// The caller's CANCEL; it may say that the call was answered elsewhere.
    package mutating func cancelReceived(answeredElsewhere: Bool = false) -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .cancelled
        wasAnsweredElsewhere = answeredElsewhere
        return endOthers(answeredElsewhere ? .answeredElsewhere : .callerCancelled) + closeIfDone()
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

    // MARK: Devices that move

    /// The request cannot be answered any more where it was sent, or shall not: the branch waits for its device again. The
    /// transaction's 2xx, should it come, still counts.
    package mutating func recalled(_ branch: Int) {
        guard case .calling(let client) = branches[branch].state else { return }
        branches[branch].former.append(client)
        branches[branch].hasMoved = true
        branches[branch].wasHeard = false
        branches[branch].isToRepeat = false
        branches[branch].state = .sleeping
    }

    /// A former transaction has spoken, and that is not its 2xx.
    package mutating func formerSpoke(_ status: Status, _ client: ClientTransactionID, of branch: Int) {
        noteDevice(branch, status)
        if status.isFinal { formerEnded(client, of: branch) }
    }

    package mutating func formerEnded(_ client: ClientTransactionID, of branch: Int) {
        branches[branch].former.removeAll { $0 == client }
    }

    /// What to do about a 482 of a device that has the request from two transactions.
    package enum Meeting: Hashable, Sendable {
        /// It rings by this one. It is taken back, and the request sent again when it is over.
        case takeBack(ClientTransactionID)
        /// The other one is over: the request is sent again at once.
        case repeatNow
        /// It means something else, or has been said too often.
        case isFinal
    }

    /// A 482 came; the branch waits for its device again unless it is final.
    package mutating func loopReported(on branch: Int) -> Meeting {
        guard phase == .proceeding, branches[branch].hasMoved, branches[branch].meetings < Self.longestMeeting else {
            return .isFinal
        }
        noteDevice(branch, .loopDetected)
        branches[branch].meetings += 1
        guard let earlier = branches[branch].former.popLast() else {
            branches[branch].isToRepeat = false
            branches[branch].state = .sleeping
            return .repeatNow
        }
        branches[branch].isToRepeat = true
        branches[branch].state = .calling(earlier)
        return .takeBack(earlier)
    }

    /// The device has answered a transaction that was taken back; false when the fork wants its answer all the same. Of
    /// several before the present one, nobody knows by which the device had the request until it says so.
    package mutating func takenBack(_ branch: Int, _ client: ClientTransactionID) -> Bool {
        guard phase == .proceeding, branches[branch].isToRepeat else { return false }
        branches[branch].isToRepeat = false
        if case .calling(let present) = branches[branch].state, present != client {
            branches[branch].former.append(present)
        }
        branches[branch].state = .sleeping
        return true
    }

    private static let longestMeeting = 3

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
