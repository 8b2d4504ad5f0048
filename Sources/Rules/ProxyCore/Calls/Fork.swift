package import Addressing
import Bytes
import Collections
package import PushDelivery
package import SIPGrammar
package import SIPTransactions

/// Names one fork. A number is never used twice in a process.
package struct ForkID: SerialID, Sendable {
    package let rawValue: UInt64
    package init(_ number: UInt64) { rawValue = number }
}

/// The response context of one proxied request (RFC 3261 section 16.7): the branches, and which response goes upstream.
///
/// A fork does no input or output. The methods of a fork take what happened to a branch, and return orders for the
/// engine.
package struct Fork: Sendable {
    package enum Phase: Hashable, Sendable {
        /// No final response was sent upstream. Next: any other phase.
        case proceeding
        /// A branch declined for all devices of the user (6xx). The other branches are being cancelled. Next:
        /// `answered`, `ended`.
        case declined
        /// The caller sent CANCEL. Next: `answered` by a 2xx that crossed the CANCEL; `ended`.
        case cancelled
        /// An operator ended the call. The caller has its final response, and the phones are being cancelled. Next:
        /// `ended`.
        case endedByOperator
        /// A 2xx went upstream. Later 2xx of other branches go upstream too. Next: `ended`.
        case answered
        /// The final response went upstream, and no branch is left.
        case ended
    }

    /// Why a branch is cancelled. The reason becomes the CANCEL's Reason header field (RFC 3326).
    package enum CancelReason: Hashable, Sendable {
        case answeredElsewhere
        case declinedElsewhere(Status)
        case callerCancelled
        /// An operator ended the call.
        case endedByOperator(Status)
        /// The device gets the request by another flow.
        case moved
    }

    package enum Order: Sendable {
        /// Send this response upstream.
        case relay(SIPResponse)
        /// Send this challenge upstream together with the challenges of other branches: the caller can answer them all
        /// (RFC 3261 section 16.7 item 7).
        case relayChallenge(SIPResponse, others: [SIPResponse])
        /// Send a response of our own upstream.
        case respond(Status)
        /// Send a final response of our own instead of this response, which concerns only one next hop.
        case respondInstead(of: SIPResponse, Status)
        /// Nobody was found: send the request to one further destination.
        case forward
        /// Send nothing: no branch answered a non-INVITE (RFC 4320 section 4.2).
        case giveUp
        case cancel(ClientTransactionID, CancelReason)
        /// The branch no longer waits for its device. A push that was not sent yet is dropped.
        case stopWaiting(branch: Int)
        /// The other side answered in this transaction after the caller got a refusal: acknowledge the answer and send BYE.
        case hangUp(SIPResponse, branch: Int, ClientTransactionID?)
    }

    /// Who answered the call. Unlike ``phase``, this stays when the fork ends.
    private enum Taker: UInt8 {
        case nobody
        /// A branch answered: its 2xx went upstream.
        case branch
        /// The destination of a forward answered. For the called user it is a missed call.
        case forward
        /// Somebody outside this proxy answered, as the Reason of the caller's CANCEL said.
        case elsewhere
    }

    package let isInvite: Bool
    package private(set) var phase = Phase.proceeding
    private var taker = Taker.nobody
    package private(set) var branches: [ForkBranch]
    private var best = BestResponse()
    /// Whether the request goes to one further destination if no phone is found. That happens at most once.
    package var mayForward = false
    /// The destination of the forward rings or has answered.
    private var forwardStands = false
    /// The branch of the forward; negative before there is one.
    private var forwardBranch: Int16 = -1

    /// A fork whose request was not sent yet on any branch.
    package init(isInvite: Bool, branches: [ForkBranch]) {
        self.isInvite = isInvite
        self.branches = branches
    }

    /// Continues the fork of an INVITE of an earlier run. The INVITE was not sent in this run yet. The store has only
    /// the status codes of earlier responses.
    package init(resuming stored: StoredCall) {
        let isAnswered = !stored.final.isEmpty
        self.init(isInvite: true, branches: stored.branches.map(ForkBranch.init))
        if stored.isUserCall, let index = branches.firstIndex(where: { $0.device == nil }) {
            forwardBranch = Int16(clamping: index)
        }
        for end in branches.compactMap(\.end) { note(end) }
        if forwardBranch >= 0, branches[Int(forwardBranch)].end == .succeeded { taker = .forward }
        for (index, branch) in branches.enumerated() where branch.isEnded && !isForward(index) {
            switch branch.end {
            case .failed(let status), .gaveUp(let status): best.consider(status, nil)
            case .succeeded, .silent, .cancelled, nil: break
            }
        }
        if phase == .endedByOperator, !isAnswered { phase = .declined }
        if isAnswered, phase != .endedByOperator || branches.allSatisfy(\.isEnded) { phase = .ended }
        if wasAnswered, branches.allSatisfy(\.isEnded) { phase = .ended }
    }

    /// Sets the fork's phase from the end of a branch that an earlier run stored.
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
        case .cancelled(.endedByOperator(let status)):
            phase = .endedByOperator
            best.decide(status)
        case .cancelled(.moved), .failed, .gaveUp, .silent: break
        }
    }

    /// All branches of the earlier run continue now, or have ended.
    package mutating func resumed() -> [Order] { closeIfDone() }

    /// The called user has no device, so that the request was sent to nobody.
    package mutating func hasNoDevice() -> [Order] { closeIfDone() }

    /// The fork has left the phase `proceeding`: branches that are still in progress get a CANCEL.
    package var isClosing: Bool { phase != .proceeding }

    /// Somebody answered the call, here or elsewhere.
    package var isAnswered: Bool { taker == .branch || taker == .elsewhere }

    /// A 2xx of a branch went upstream. Unlike ``phase``, this stays when the fork ends.
    package var wasAnswered: Bool { taker == .branch || taker == .forward }

    /// Whether branches may still be started: no final response was chosen yet.
    package var acceptsBranches: Bool { phase == .proceeding }

    /// The branch that waits for this device.
    package func waitingBranch(of device: DeviceID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isWaiting }
    }

    /// Whether at least one branch waits for its device.
    package var isWaiting: Bool { branches.contains(where: \.isWaiting) }

    /// How many branches have a device that knows of the call.
    package var knowingDevices: Int { branches.count(where: \.deviceKnows) }

    // MARK: Sending

    /// Adds a branch for a device that registered while the call is offered.
    ///
    /// - Returns: the index of the new branch.
    package mutating func added(_ device: DeviceID) -> Int {
        branches.append(ForkBranch(device: device))
        return branches.count - 1
    }

    /// See ``ForkBranch/waits()``.
    package mutating func waits(_ branch: Int) { branches[branch].waits() }

    /// See ``ForkBranch/aimed(routeHash:)``.
    package mutating func aimed(_ branch: Int, routeHash: Int) { branches[branch].aimed(routeHash: routeHash) }

    /// See ``ForkBranch/diverted(to:)``.
    package mutating func diverted(_ branch: Int, to contact: DeviceID) { branches[branch].diverted(to: contact) }

    /// See ``ForkBranch/deviceCame()``.
    package mutating func deviceCame(_ branch: Int) { branches[branch].deviceCame() }

    /// See ``ForkBranch/renamed(_:to:)``.
    package mutating func renamed(_ device: DeviceID, to heir: DeviceID) {
        for index in branches.indices { branches[index].renamed(device, to: heir) }
    }

    /// See ``ForkBranch/resolving(_:)``.
    package mutating func resolving(_ branch: Int, _ ticket: ResolutionTicket) { branches[branch].resolving(ticket) }

    /// No response has come to the request: the branch waits for its device. A late answer of the device still counts.
    package mutating func fellSilent(_ branch: Int) { branches[branch].fellSilent() }

    /// See ``ForkBranch/sent(as:on:)``.
    package mutating func sent(_ branch: Int, as client: ClientTransactionID, on flow: Flow) {
        branches[branch].sent(as: client, on: flow)
    }

    /// See ``ForkBranch/heard(_:)``.
    package mutating func heard(_ branch: Int, _ client: ClientTransactionID) { branches[branch].heard(client) }

    // MARK: Push, record, called devices

    package mutating func pushAsked(_ branch: Int, _ push: PushID) { branches[branch].pushAsked(push) }

    /// The push was sent to the provider.
    package mutating func pushLeft(_ branch: Int) { branches[branch].pushLeft() }

    /// The provider has refused the push, which counts as not sent. The push may be retried.
    package mutating func pushRefused(_ branch: Int) { branches[branch].pushRefused() }

    /// The provider's final result for the push has come.
    package mutating func pushFinished(_ branch: Int, isAccepted: Bool) {
        _ = branches[branch].takePush()
        if isAccepted { branches[branch].pushTaken() }
    }

    /// The provider has accepted a push that the branch no longer waited for: the phone may ring.
    ///
    /// - Returns: whether the branch is still active, so that the result matters.
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

    /// The store has the branch's present state.
    package mutating func wasWritten(_ branch: Int) { branches[branch].wasWritten() }

    /// The call is listed under the branch's device from now on, see ``WakeDesk``.
    package mutating func wasListed(_ branch: Int) { branches[branch].wasListed() }

    package mutating func wasUnlisted(_ branch: Int) { branches[branch].wasUnlisted() }

    // MARK: Responses and ends

    /// A response of 101 to 199 came.
    package mutating func provisionalReceived(_ response: SIPResponse, on branch: Int) -> [Order] {
        if isForward(branch) { return forwardRang(response, on: branch) }
        noteDevice(branch, response.status)
        return phase == .proceeding ? [.relay(response)] : []
    }

    /// A 2xx came. Every 2xx to an INVITE goes upstream (RFC 3261 section 16.7 item 5).
    ///
    /// If the 2xx belongs to a former transaction, from before the device moved, the present transaction is cancelled.
    package mutating func successReceived(
        _ response: SIPResponse, on branch: Int, from client: ClientTransactionID? = nil
    ) -> [Order] {
        if isForward(branch) { return forwardAnswered(response, on: branch, from: client) }
        noteDevice(branch, response.status)
        let state = branches[branch].state
        branches[branch].succeeded(by: client, isRefused: phase == .endedByOperator)
        let orders = relayed(response, on: branch, from: client)
        switch state {
        case .calling(let present), .takingBack(let present), .cancelled(let present, _):
            return client == nil || present == client ? orders : orders + [.cancel(present, .moved)]
        case .waiting: return orders + [.stopWaiting(branch: branch)]
        case .silent(let present): return orders + [.stopWaiting(branch: branch), .cancel(present, .moved)]
        case .unsent, .resumed, .resolving, .ended: return orders
        }
    }

    private mutating func relayed(
        _ response: SIPResponse, on branch: Int, from client: ClientTransactionID?
    ) -> [Order] {
        switch phase {
        case .proceeding, .declined, .cancelled:
            phase = .answered
            taker = .branch
            return [.relay(response)] + endOthers(.answeredElsewhere) + closeIfDone()
        case .answered:
            return (isInvite ? [.relay(response)] : []) + closeIfDone()
        case .endedByOperator: return [.hangUp(response, branch: branch, client)] + closeIfDone()
        case .ended:
            // The device sends its 2xx again until it gets the caller's ACK.
            return isInvite ? [.relay(response)] : []
        }
    }

    /// A branch failed with a final response of 300 or more. `response` is `nil` if we chose the status.
    package mutating func failed(_ branch: Int, with status: Status, response: SIPResponse?) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        if isForward(branch) { return forwardFailed(branch, response == nil ? .gaveUp(status) : .failed(status)) }
        if response != nil { noteDevice(branch, status) }
        var orders: [Order] = []
        // The INVITE may still reach a silent device: the INVITE is cancelled, but a 2xx counts.
        if isInvite, case .silent(let client) = branches[branch].state { orders = [.cancel(client, .moved)] }
        branches[branch].ended(response == nil ? .gaveUp(status) : .failed(status))
        best.consider(status, response)
        if status.statusClass == 6, phase == .proceeding {
            phase = .declined
            orders += endOthers(.declinedElsewhere(status))
        }
        return orders + closeIfDone()
    }

    /// The branch's target cannot be reached, and the caller gets 503. After other failures, a 503 becomes 500.
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

    /// The caller's CANCEL came. The CANCEL's Reason may say that the call was answered elsewhere.
    ///
    /// The fork believes such a Reason even after a branch declined with 6xx, or when the CANCEL crossed the final
    /// response.
    package mutating func cancelReceived(answeredElsewhere: Bool = false) -> [Order] {
        if answeredElsewhere, taker == .nobody { taker = .elsewhere }
        guard phase == .proceeding else { return [] }
        phase = .cancelled
        return endOthers(answeredElsewhere ? .answeredElsewhere : .callerCancelled) + closeIfDone()
    }

    /// An operator ends the call: the caller gets this status immediately, and phones that have the INVITE are
    /// cancelled.
    package mutating func endedByOperator(with status: Status) -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .endedByOperator
        return [.respond(status)] + endOthers(.endedByOperator(status)) + closeIfDone()
    }

    /// The time to wait for devices is over (R18).
    package mutating func deadlineReached() -> [Order] {
        if forwardsNow { return goesForward() }
        return endWaits()
    }

    private mutating func endWaits() -> [Order] {
        let waiting = branches.indices.filter { branches[$0].isWaiting }
        return waiting.flatMap { index in
            [.stopWaiting(branch: index)] + failed(index, with: .temporarilyUnavailable, response: nil)
        }
    }

    // MARK: Devices that move

    /// The device has moved, or its connection has ended: the branch waits for its device again. A late 2xx of the
    /// former transaction still counts.
    package mutating func recalled(_ branch: Int) { branches[branch].recalled() }

    /// A cancelled branch ends without its final response, because its device cannot be reached now. A late 2xx still
    /// counts.
    package mutating func abandoned(_ branch: Int) -> [Order] {
        guard branches[branch].abandoned() else { return [] }
        best.consider(.requestTerminated, nil)
        return closeIfDone()
    }

    /// A former transaction got a response other than a 2xx, or failed without any response.
    package mutating func formerSpoke(_ status: Status, _ client: ClientTransactionID, of branch: Int) {
        noteDevice(branch, status)
        if status.isFinal { formerEnded(client, of: branch) }
    }

    package mutating func formerEnded(_ client: ClientTransactionID, of branch: Int) {
        branches[branch].formerEnded(client)
    }

    /// A 482 came. The branch waits for its device again, unless the 482 is final.
    package mutating func loopReported(on branch: Int) -> ForkBranch.Loop {
        phase == .proceeding ? branches[branch].loopReported() : .isFinal
    }

    /// A transaction of the branch ended without a 2xx.
    ///
    /// - Returns: whether the branch was taking a transaction back. If not, the transaction's result counts.
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

    /// Ends waiting branches, and orders the CANCEL of requests that were sent.
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
        if forwardsNow { return goesForward() }
        // The called user has no device, and the destination of the forward has refused.
        if best.status == nil, branches.indices.allSatisfy(isForward) { best.consider(.temporarilyUnavailable, nil) }
        defer { phase = .ended }
        switch phase {
        case .answered, .endedByOperator, .ended: return []
        case .cancelled: return [best.orderAfterCancel]
        case .proceeding, .declined: return [best.order(isInvite: isInvite)]
        }
    }
}

// MARK: A forward

/// A call for which no phone is found can go to one further destination. Until that destination rings or answers, the
/// phones are still waited for.
extension Fork {
    /// The request was forwarded, or is being forwarded.
    package var hasForward: Bool { forwardBranch >= 0 }

    package func isForward(_ branch: Int) -> Bool { branch == Int(forwardBranch) }

    /// The forward was begun, and its destination neither rings nor has failed.
    package var isForwardPending: Bool {
        guard forwardBranch >= 0, !forwardStands, phase == .proceeding else { return false }
        switch branches[Int(forwardBranch)].state {
        case .unsent, .resumed(cancelled: nil), .resolving(_, cancelled: nil), .calling: return true
        case .resumed, .resolving, .waiting, .takingBack, .silent, .cancelled, .ended: return false
        }
    }

    /// The destination of the forward answered.
    package var wasForwarded: Bool { taker == .forward }

    /// Somebody answered, here, elsewhere, or at the destination of a forward.
    package var isAnsweredOrForwarded: Bool { taker != .nobody }

    /// Each phone was waited for in vain, or could not be reached.
    package var foundNobody: Bool {
        branches.indices.allSatisfy { isForward($0) || branches[$0].end == .gaveUp(.temporarilyUnavailable) }
    }

    /// Whether the request is forwarded as soon as the wait for all phones is over.
    package var forwardsNow: Bool { forwardsAfter(nil) }

    /// The same, if the wait for this branch alone is over.
    package func forwardsAfter(_ branch: Int?) -> Bool {
        guard mayForward, phase == .proceeding else { return false }
        return branches.indices.allSatisfy { index in
            branches[index].end == .gaveUp(.temporarilyUnavailable)
                || branches[index].isWaiting && (branch == nil || branch == index)
        }
    }

    private mutating func goesForward() -> [Order] {
        mayForward = false
        return [.forward]
    }

    /// Adds the branch of the forward.
    package mutating func forwarded() -> Int {
        branches.append(ForkBranch(device: nil))
        forwardBranch = Int16(clamping: branches.count - 1)
        return branches.count - 1
    }

    /// The request cannot be forwarded any more.
    package mutating func forwardImpossible() -> [Order] { endWaits() + closeIfDone() }

    /// The wait for one device is over before that for the others.
    package mutating func waitIsOver(_ branch: Int) -> [Order] {
        guard branches[branch].isWaiting else { return [] }
        if forwardsAfter(branch) { return goesForward() }
        return [.stopWaiting(branch: branch)] + failed(branch, with: .temporarilyUnavailable, response: nil)
    }

    /// A phone has come before the destination rang: the forward is cancelled.
    package mutating func forwardWithdrawn() -> [Order] {
        guard isForwardPending else { return [] }
        return branches[Int(forwardBranch)].cancelled(.moved).client.map { [.cancel($0, .moved)] } ?? []
    }

    /// The destination was silent for too long.
    package mutating func forwardTimedOut() -> [Order] { forwardWithdrawn() + endWaits() + closeIfDone() }

    private mutating func forwardRang(_ response: SIPResponse, on branch: Int) -> [Order] {
        guard phase == .proceeding, case .calling = branches[branch].state else { return [] }
        guard response.status.code >= 180 else { return [.relay(response)] }
        forwardStands = true
        return endWaits() + [.relay(response)]
    }

    private mutating func forwardAnswered(
        _ response: SIPResponse, on branch: Int, from client: ClientTransactionID?
    ) -> [Order] {
        let waits = phase == .proceeding ? endWaits() : []
        forwardStands = true
        branches[branch].succeeded(by: client, isRefused: phase == .endedByOperator)
        guard phase == .proceeding || phase == .declined || phase == .cancelled else {
            return waits + relayed(response, on: branch, from: client)
        }
        phase = .answered
        taker = .forward
        return waits + [.relay(response)] + endOthers(.declinedElsewhere(.temporarilyUnavailable)) + closeIfDone()
    }

    /// The destination has refused. The caller does not get that response, because the caller called somebody else.
    private mutating func forwardFailed(_ branch: Int, _ end: ForkBranch.End) -> [Order] {
        branches[branch].ended(end)
        let isOver = phase == .proceeding && branches.allSatisfy { $0.isEnded || $0.isWaiting }
        return (isOver ? endWaits() : []) + closeIfDone()
    }
}
