package import Addressing
import Bytes
import Collections
package import PushDelivery
package import SIPGrammar
package import SIPTransactions

/// Names one fork; never used twice in a process.
package struct ForkID: SerialID, Sendable {
    package let rawValue: UInt64
    package init(_ number: UInt64) { rawValue = number }
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
        /// An operator ended the call: the caller has its final response, the phones are being cancelled. Next: `ended`.
        case dismissed
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
        /// The same in the place of this response, which speaks of a next hop alone.
        case respondInstead(of: SIPResponse, Status)
        /// Send nothing at all: a non-INVITE that no branch answered (RFC 4320 section 4.2).
        case giveUp
        case cancel(ClientTransactionID, CancelReason)
        /// This branch no longer waits for its device; its push, if not sent yet, is dropped.
        case stopWaiting(branch: Int)
        /// The device answered a call whose caller has got a refusal: its call is acknowledged and ended at once.
        case hangUp(SIPResponse, branch: Int)
    }

    /// Who has the call, whatever the phase is now.
    private enum Taker: UInt8 {
        case nobody
        /// A branch: its 2xx went upstream.
        case branch
        /// Somebody whom we do not know, as the caller's CANCEL said.
        case elsewhere
    }

    package let isInvite: Bool
    package private(set) var phase = Phase.proceeding
    private var taker = Taker.nobody
    package private(set) var branches: [ForkBranch]
    private var best = BestResponse()

    /// A fork whose branches have not been sent.
    package init(isInvite: Bool, branches: [ForkBranch]) {
        self.isInvite = isInvite
        self.branches = branches
    }

    /// Goes on with the fork of an INVITE of an earlier run, whose branches have not been sent by this one. Of responses their
    /// statuses are left.
    package init(resuming stored: StoredCall) {
        let isAnswered = !stored.final.isEmpty
        self.init(isInvite: true, branches: stored.branches.map(ForkBranch.init))
        for end in branches.compactMap(\.end) { note(end) }
        for branch in branches where branch.isEnded {
            switch branch.end {
            case .failed(let status), .gaveUp(let status): best.consider(status, nil)
            case .succeeded, .silent, .cancelled, nil: break
            }
        }
        if phase == .dismissed, !isAnswered { phase = .declined }
        if isAnswered, phase != .dismissed || branches.allSatisfy(\.isEnded) { phase = .ended }
        if wasAnswered, branches.allSatisfy(\.isEnded) { phase = .ended }
    }

    /// What the end of a branch says of the whole.
    private mutating func note(_ end: ForkBranch.End) {
        switch end {
        case .succeeded:
            phase = .answered
            taker = .branch
        case .cancelled where phase == .answered: break
        case .cancelled(.callerCancelled): phase = .cancelled
        case .cancelled(.answeredElsewhere):
            phase = .cancelled
            taker = .elsewhere
        case .cancelled(.declinedElsewhere): phase = .declined
        case .cancelled(.dismissed(let status)):
            phase = .dismissed
            best.decide(status)
        case .cancelled(.moved), .failed, .gaveUp, .silent: break
        }
    }

    /// All branches go on, or have ended.
    package mutating func resumed() -> [Order] { closeIfDone() }

    /// The branches that are still under way are to be cancelled for that reason.
    package var isClosing: Bool { phase != .proceeding }

    /// Somebody has the call.
    package var isAnswered: Bool { taker != .nobody }

    /// A 2xx went upstream, whatever the phase is now.
    package var wasAnswered: Bool { taker == .branch }

    /// Branches may still be started: no final response was chosen.
    package var acceptsBranches: Bool { phase == .proceeding }

    /// The branch that waits for this device.
    package func waitingBranch(of device: DeviceID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isWaiting }
    }

    /// A branch waits for its device.
    package var isWaiting: Bool { branches.contains(where: \.isWaiting) }

    /// How many branches are of devices that know of the call.
    package var knowingDevices: Int { branches.count(where: \.deviceKnows) }

    // MARK: On the way to the device

    /// One more branch: the device turned up while the call was offered.
    ///
    /// - Returns: its number.
    package mutating func added(_ device: DeviceID) -> Int {
        branches.append(ForkBranch(device: device))
        return branches.count - 1
    }

    /// See ``ForkBranch/waits()``.
    package mutating func waits(_ branch: Int) { branches[branch].waits() }

    /// See ``ForkBranch/aimed(way:)``.
    package mutating func aimed(_ branch: Int, way: Int) { branches[branch].aimed(way: way) }

    /// See ``ForkBranch/diverted(to:)``.
    package mutating func diverted(_ branch: Int, to contact: DeviceID) { branches[branch].diverted(to: contact) }

    /// See ``ForkBranch/deviceCame()``.
    package mutating func deviceCame(_ branch: Int) { branches[branch].deviceCame() }

    /// The device has another number from now on: it lost the binding whose number it had.
    package mutating func renamed(_ device: DeviceID, to heir: DeviceID) {
        for index in branches.indices { branches[index].renamed(device, to: heir) }
    }

    /// See ``ForkBranch/resolving(_:)``.
    package mutating func resolving(_ branch: Int, _ ticket: ResolutionTicket) { branches[branch].resolving(ticket) }

    /// Nothing has come back for the request: the branch waits for its device, whose late answer counts.
    package mutating func fellSilent(_ branch: Int) { branches[branch].fellSilent() }

    /// See ``ForkBranch/sent(as:on:)``.
    package mutating func sent(_ branch: Int, as client: ClientTransactionID, on flow: Flow) {
        branches[branch].sent(as: client, on: flow)
    }

    /// See ``ForkBranch/heard(_:)``.
    package mutating func heard(_ branch: Int, _ client: ClientTransactionID) { branches[branch].heard(client) }

    // MARK: Its push, its record and its place among the called devices

    package mutating func pushAsked(_ branch: Int, _ push: PushID) { branches[branch].pushAsked(push) }

    /// The push is on its way to the provider.
    package mutating func pushLeft(_ branch: Int) { branches[branch].pushLeft() }

    /// The provider has refused the push, which counts as not sent. It may be tried again.
    package mutating func pushRefused(_ branch: Int) { branches[branch].pushRefused() }

    /// The provider's last word.
    package mutating func pushFinished(_ branch: Int, isAccepted: Bool) {
        _ = branches[branch].takePush()
        if isAccepted { branches[branch].pushTaken() }
    }

    /// The provider has taken a push that the branch did not wait for any more: the phone may ring by it.
    ///
    /// - Returns: whether that still matters.
    package mutating func pushTaken(_ branch: Int) -> Bool {
        guard !branches[branch].isEnded else { return false }
        branches[branch].pushTaken()
        return true
    }

    /// See ``ForkBranch/takePush()``.
    package mutating func takePush(_ branch: Int) -> PushID? { branches[branch].takePush() }

    /// See ``ForkBranch/recorded(as:)``.
    package mutating func recorded(_ branch: Int, as record: RecordID) { branches[branch].recorded(as: record) }

    /// See ``ForkBranch/takeRecord()``.
    package mutating func takeRecord(_ branch: Int) -> RecordID? { branches[branch].takeRecord() }

    /// The store has it as it is now.
    package mutating func wasWritten(_ branch: Int) { branches[branch].wasWritten() }

    /// It is found by its device from now on, see ``CalledDevices``.
    package mutating func wasListed(_ branch: Int) { branches[branch].wasListed() }

    package mutating func wasUnlisted(_ branch: Int) { branches[branch].wasUnlisted() }

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
        branches[branch].succeeded(by: client, isRefused: phase == .dismissed)
        let orders = relayed(response, on: branch)
        switch state {
        case .calling(let present), .takingBack(let present), .cancelled(let present, _):
            return client == nil || present == client ? orders : orders + [.cancel(present, .moved)]
        case .waiting: return orders + [.stopWaiting(branch: branch)]
        case .silent(let present): return orders + [.stopWaiting(branch: branch), .cancel(present, .moved)]
        case .unsent, .resumed, .resolving, .ended: return orders
        }
    }

    private mutating func relayed(_ response: SIPResponse, on branch: Int) -> [Order] {
        switch phase {
        case .proceeding, .declined, .cancelled:
            phase = .answered
            taker = .branch
            return [.relay(response)] + endOthers(.answeredElsewhere) + closeIfDone()
        case .answered:
            return (isInvite ? [.relay(response)] : []) + closeIfDone()
        case .dismissed: return [.hangUp(response, branch: branch)] + closeIfDone()
        case .ended:
            // A retransmission by the device, which waits for the caller's ACK.
            return isInvite ? [.relay(response)] : []
        }
    }

    /// A final response of 300 or more, received or made up for a branch that failed (`response` is `nil` then).
    package mutating func failed(_ branch: Int, with status: Status, response: SIPResponse?) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        if response != nil { noteDevice(branch, status) }
        var orders: [Order] = []
        // The INVITE may reach a silent device yet: it is taken back then, but a 2xx counts.
        if isInvite, case .silent(let client) = branches[branch].state { orders = [.cancel(client, .moved)] }
        branches[branch].ended(response == nil ? .gaveUp(status) : .failed(status))
        best.consider(status, response)
        if status.statusClass == 6, phase == .proceeding {
            phase = .declined
            orders += endOthers(.declinedElsewhere(status))
        }
        return orders + closeIfDone()
    }

    /// Nobody is there where the branch leads to, and the caller shall hear it.
    package mutating func givenUp(_ branch: Int) -> [Order] {
        if phase == .proceeding { best.decide(.serviceUnavailable) }
        return failed(branch, with: .serviceUnavailable, response: nil)
    }

    /// A branch ended without any response that may be passed on: a non-INVITE that timed out.
    package mutating func silenced(_ branch: Int) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        branches[branch].silenced()
        return closeIfDone()
    }

    /// The caller's CANCEL. It may say that the call was answered elsewhere, which is also believed when a branch has declined
    /// for everybody, or the CANCEL has crossed the final response.
    package mutating func cancelReceived(answeredElsewhere: Bool = false) -> [Order] {
        if answeredElsewhere, taker == .nobody { taker = .elsewhere }
        guard phase == .proceeding else { return [] }
        phase = .cancelled
        return endOthers(answeredElsewhere ? .answeredElsewhere : .callerCancelled) + closeIfDone()
    }

    /// An operator ends it: the caller gets this status at once, and phones that have the call are cancelled.
    package mutating func dismissed(with status: Status) -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .dismissed
        return [.respond(status)] + endOthers(.dismissed(status)) + closeIfDone()
    }

    /// The time to wait for devices is over (R18).
    package mutating func deadlineReached() -> [Order] {
        let waiting = branches.indices.filter { branches[$0].isWaiting }
        return waiting.flatMap { index in
            [.stopWaiting(branch: index)] + failed(index, with: .temporarilyUnavailable, response: nil)
        }
    }

    // MARK: Devices that move

    /// The request cannot, or shall not, be answered any more where it was sent: the branch waits for its device again. If a
    /// 2xx of that transaction comes, it still counts.
    package mutating func recalled(_ branch: Int) { branches[branch].recalled() }

    /// A branch that was cancelled is not waited for any more: its device cannot be reached now. A 2xx of its transaction
    /// still counts.
    package mutating func abandoned(_ branch: Int) -> [Order] {
        guard branches[branch].abandoned() else { return [] }
        best.consider(.requestTerminated, nil)
        return closeIfDone()
    }

    /// A former transaction had a response other than a 2xx, or none at all.
    package mutating func formerSpoke(_ status: Status, _ client: ClientTransactionID, of branch: Int) {
        noteDevice(branch, status)
        if status.isFinal { formerEnded(client, of: branch) }
    }

    package mutating func formerEnded(_ client: ClientTransactionID, of branch: Int) {
        branches[branch].formerEnded(client)
    }

    /// A 482 came; the branch waits for its device again unless it is final.
    package mutating func loopReported(on branch: Int) -> ForkBranch.Loop {
        phase == .proceeding ? branches[branch].loopReported() : .isFinal
    }

    /// The device has answered a transaction.
    ///
    /// - Returns: whether one was taken back; when not, the answer counts.
    package mutating func takenBack(_ branch: Int, _ client: ClientTransactionID) -> Bool {
        branches[branch].takenBack(client)
    }

    // MARK: Choosing

    private mutating func noteDevice(_ branch: Int, _ status: Status) {
        guard branches.indices.contains(branch), status.code >= 180, status != .requestTimeout,
            status != .serviceUnavailable
        else { return }
        branches[branch].deviceSpoke()
    }

    /// Ends waiting branches at once and orders the CANCEL of those that were sent.
    private mutating func endOthers(_ reason: CancelReason) -> [Order] {
        var orders: [Order] = []
        for index in branches.indices {
            let was = branches[index].cancelled(reason)
            if was.wasWaiting { orders.append(.stopWaiting(branch: index)) }
            if isInvite, let client = was.client { orders.append(.cancel(client, reason)) }
        }
        return orders
    }

    private mutating func closeIfDone() -> [Order] {
        guard phase != .ended, branches.allSatisfy(\.isEnded) else { return [] }
        defer { phase = .ended }
        switch phase {
        case .answered, .dismissed, .ended: return []
        case .cancelled: return [best.orderAfterCancel]
        case .proceeding, .declined: return [best.order(isInvite: isInvite)]
        }
    }
}
