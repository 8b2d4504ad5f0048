package import Addressing
import Bytes
import Collections
package import PushDelivery
package import Routing
package import SIPGrammar
package import SIPTransactions

/// The id of a fork, which is never used for another fork.
package struct ForkID: SerialID, Sendable {
    package let rawValue: UInt64
    package init(_ number: UInt64) { rawValue = number }
}

/// The response context of one proxied request (RFC 3261 section 16.7): its branches, and the choice of the response
/// for the caller.
///
/// A fork only decides. It does no input or output. The methods of a fork handle the events of its branches, and return
/// orders for the engine.
package struct Fork: Sendable {
    package enum Phase: Hashable, Sendable {
        /// The caller has no final response yet; the next phase can be any other phase.
        case proceeding
        /// One phone declined with 6xx for all devices of the user, and the fork cancels the branches to the user's
        /// other phones. The next phase after `declined` is `answered` or `ended`.
        case declined
        /// The caller has sent CANCEL; the next phase is `answered` (by a 2xx that crossed the CANCEL) or `ended`.
        case cancelled
        /// An operator ended the call: the caller has its final response, and the requests to phones are being
        /// cancelled.
        case endedByOperator
        /// The caller has got the 2xx of a branch, and gets each later 2xx of another branch too.
        case answered
        /// The caller has got the final response, and every branch has ended.
        case ended
    }

    /// The reason why a branch is cancelled, for the Reason header field of the CANCEL (RFC 3326).
    package enum CancelReason: Hashable, Sendable {
        case answeredElsewhere
        case declinedElsewhere(Status)
        case callerCancelled
        /// An operator ended the call.
        case endedByOperator(Status)
        /// The device gets the request on another of its flows.
        case moved
    }

    package enum Order: Sendable {
        /// Forward the given response to the caller.
        case relay(SIPResponse)
        /// Forward the given challenge to the caller, together with the challenges of other branches. The caller can
        /// then answer all of them (RFC 3261 section 16.7 item 7).
        case relayChallenge(SIPResponse, others: [SIPResponse])
        /// Send the caller a response that the proxy itself creates.
        case respond(Status)
        /// Send the caller the proxy's own final response, because the received response is about the next hop only.
        case respondInstead(of: SIPResponse, Status)
        /// Forward the request to the destination in the settings, because no phone of the user was found.
        case forward
        /// Let the next devices ring, because all devices that rang have failed.
        case startNextGroup
        /// Send no final response, because no branch answered a request other than INVITE (RFC 4320 section 4.2).
        case giveUp
        case cancel(ClientTransactionID, CancelReason)
        /// End the branch's wait for its device, and drop its push if the push was not sent yet.
        case stopWaiting(branch: Int)
        /// Send ACK and BYE to a phone that answered with 2xx after the caller had got a refusal.
        case hangUp(SIPResponse, branch: Int, ClientTransactionID?)
    }

    /// Who answered the call; ``taker`` keeps its value when the fork ends, unlike ``phase``.
    private enum Taker: UInt8 {
        case nobody
        /// A branch answered, and the caller got its 2xx.
        case branch
        /// The destination of a forward answered. The call is treated as missed for the called user.
        case forward
        /// Somebody outside this daemon answered the call, according to the Reason of the caller's CANCEL.
        case elsewhere
    }

    package let isInvite: Bool
    package private(set) var phase = Phase.proceeding
    private var taker = Taker.nobody
    package private(set) var branches: [ForkBranch]
    private var best = BestResponse()
    /// Whether the request may be forwarded to one further destination if no phone is found.
    private var mayForward = false
    /// Whether the destination to which the call is forwarded rings or has answered.
    private var forwardStands = false
    /// The index of the branch to the destination of the forwarded call; negative while the call is not forwarded.
    private var forwardBranch: Int16 = -1

    /// Creates a fork whose request was not sent yet on any branch.
    package init(isInvite: Bool, branches: [ForkBranch]) {
        self.isInvite = isInvite
        self.branches = branches
    }

    /// Restores the fork of an INVITE from the daemon's earlier run. The present run has not sent the INVITE yet.
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

    /// Sets the fork's phase by the result of a branch that ended in the daemon's earlier run.
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

    /// Ends a resumed fork if all its branches ended in the daemon's earlier run.
    package mutating func resumed() -> [Order] { closeIfDone() }

    /// Ends the fork, or forwards its request, because the called user has no device.
    package mutating func hasNoDevice() -> [Order] { closeIfDone() }

    /// Whether the fork has left the phase `proceeding`, so that requests in progress get a CANCEL.
    package var isClosing: Bool { phase != .proceeding }

    /// Whether somebody answered the call, at a phone of this daemon or elsewhere.
    package var isAnswered: Bool { taker == .branch || taker == .elsewhere }

    /// Whether the caller got the 2xx of a branch; ``wasAnswered`` keeps its value when the fork ends, unlike
    /// ``phase``.
    package var wasAnswered: Bool { taker == .branch || taker == .forward }

    /// Whether new branches can start, because no final response was chosen yet.
    package var acceptsBranches: Bool { phase == .proceeding }

    /// The index of the branch that waits for the given device; `nil` if no branch waits for the device.
    package func waitingBranch(of device: DeviceID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isWaiting }
    }

    /// The index of the branch for the given device, if the device's turn has not come; otherwise `nil`.
    package func delayedBranch(of device: DeviceID) -> Int? {
        branches.firstIndex { $0.device == device && $0.isDelayed }
    }

    /// Whether all devices that rang have failed, and other devices have not had their turn.
    package var isReadyForNextGroup: Bool {
        phase == .proceeding && branches.allSatisfy { $0.isEnded || $0.isDelayed }
            && branches.contains(where: \.isDelayed)
    }

    /// Whether at least one branch waits for its device.
    package var isWaiting: Bool { branches.contains(where: \.isWaiting) }

    /// The number of branches whose devices know the call.
    package var knowingDevices: Int { branches.count(where: \.deviceKnows) }

    // MARK: Sending

    /// Adds a branch for a device that registered after the call had begun, and returns the index of the branch.
    package mutating func added(_ device: DeviceID) -> Int {
        branches.append(ForkBranch(device: device))
        return branches.count - 1
    }

    package mutating func delays(_ branch: Int) { branches[branch].delays() }

    package mutating func turnCame(_ branch: Int) { branches[branch].turnCame() }

    package mutating func waits(_ branch: Int) { branches[branch].waits() }

    package mutating func aimed(_ branch: Int, routeHash: Int) { branches[branch].aimed(routeHash: routeHash) }

    package mutating func diverted(_ branch: Int, to contact: DeviceID) { branches[branch].diverted(to: contact) }

    package mutating func deviceCame(_ branch: Int) { branches[branch].deviceCame() }

    package mutating func renamed(_ device: DeviceID, to successor: DeviceID) {
        for index in branches.indices { branches[index].renamed(device, to: successor) }
    }

    package mutating func resolving(_ branch: Int, _ ticket: ResolutionTicket) { branches[branch].resolving(ticket) }

    /// Lets a branch wait for its device, because no response to the request has come; a late response still counts.
    package mutating func fellSilent(_ branch: Int) { branches[branch].fellSilent() }

    package mutating func sent(_ branch: Int, as client: ClientTransactionID, on flow: Flow) {
        branches[branch].sent(as: client, on: flow)
    }

    package mutating func heard(_ branch: Int, _ client: ClientTransactionID) { branches[branch].heard(client) }

    // MARK: Push, record, called devices

    package mutating func pushAsked(_ branch: Int, _ push: PushID) { branches[branch].pushAsked(push) }

    /// Notes that the branch's push was sent to its provider.
    package mutating func pushLeft(_ branch: Int) { branches[branch].pushLeft() }

    /// Notes that the provider has refused the branch's push, so that the engine can send the push again.
    package mutating func pushRefused(_ branch: Int) { branches[branch].pushRefused() }

    /// Notes the provider's final result for the branch's push.
    package mutating func pushFinished(_ branch: Int, isAccepted: Bool) {
        _ = branches[branch].takePush()
        if isAccepted { branches[branch].pushTaken() }
    }

    /// Notes that the provider has accepted a push that the branch no longer waited for. The phone may ring because of
    /// this push.
    ///
    /// - Returns: false if the branch has ended, so that the push has no effect.
    package mutating func pushTaken(_ branch: Int) -> Bool {
        guard !branches[branch].isEnded else { return false }
        branches[branch].pushTaken()
        return true
    }

    package mutating func takePush(_ branch: Int) -> PushID? { branches[branch].takePush() }

    package mutating func recorded(_ branch: Int, as record: RecordID) { branches[branch].recorded(as: record) }

    package mutating func takeRecord(_ branch: Int) -> RecordID? { branches[branch].takeRecord() }

    /// Notes that the journal has written the present state of the branch.
    package mutating func wasWritten(_ branch: Int) { branches[branch].wasWritten() }

    /// Notes that ``WakeDesk`` lists the call under the branch's device.
    package mutating func wasListed(_ branch: Int) { branches[branch].wasListed() }

    package mutating func wasUnlisted(_ branch: Int) { branches[branch].wasUnlisted() }

    // MARK: Responses and ends

    /// Handles a provisional response of a branch, from 101 to 199.
    package mutating func provisionalReceived(_ response: SIPResponse, on branch: Int) -> [Order] {
        if isForward(branch) { return forwardRang(response, on: branch) }
        noteDevice(branch, response.status)
        return phase == .proceeding ? [.relay(response)] : []
    }

    /// Handles a 2xx of a branch: every 2xx to an INVITE is sent to the caller (RFC 3261 section 16.7 item 5).
    ///
    /// If the 2xx came in a transaction on an earlier flow of the device, the fork cancels the branch's present
    /// transaction.
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
        case .unsent, .delayed, .resumed, .resolving, .ended: return orders
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
            // A 2xx to an INVITE is forwarded even after the end of the fork, because the device repeats the 2xx until
            // the caller's ACK arrives.
            return isInvite ? [.relay(response)] : []
        }
    }

    /// Ends a branch that failed with a status of 300 or more; `response` is `nil` if this proxy chose the status.
    package mutating func failed(_ branch: Int, with status: Status, response: SIPResponse?) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        if isForward(branch) { return forwardFailed(branch, response == nil ? .gaveUp(status) : .failed(status)) }
        if response != nil { noteDevice(branch, status) }
        var orders: [Order] = []
        // The INVITE to a silent device is cancelled, because it may still reach the device; a later 2xx still counts.
        if isInvite, case .silent(let client) = branches[branch].state { orders = [.cancel(client, .moved)] }
        branches[branch].ended(response == nil ? .gaveUp(status) : .failed(status))
        best.consider(status, response)
        if status.statusClass == 6, phase == .proceeding {
            phase = .declined
            orders += endOthers(.declinedElsewhere(status))
        }
        return orders + closeIfDone()
    }

    /// Ends a branch whose target cannot be reached, so that the caller gets 503. A 503 that came from a next hop is
    /// sent to the caller as 500.
    package mutating func givenUp(_ branch: Int) -> [Order] {
        if phase == .proceeding { best.decide(.serviceUnavailable) }
        return failed(branch, with: .serviceUnavailable, response: nil)
    }

    /// Ends a branch that has no response to forward: a request other than INVITE that timed out.
    package mutating func silenced(_ branch: Int) -> [Order] {
        guard branches.indices.contains(branch), !branches[branch].isEnded else { return [] }
        branches[branch].silenced()
        return closeIfDone()
    }

    /// Handles the caller's CANCEL; `answeredElsewhere` is true if its Reason says that the call was answered elsewhere.
    ///
    /// The Reason counts even if a branch has declined with 6xx, or if the CANCEL crossed the final response.
    package mutating func cancelReceived(answeredElsewhere: Bool = false) -> [Order] {
        if answeredElsewhere, taker == .nobody { taker = .elsewhere }
        guard phase == .proceeding else { return [] }
        phase = .cancelled
        return endOthers(answeredElsewhere ? .answeredElsewhere : .callerCancelled) + closeIfDone()
    }

    /// Ends the call for an operator: the caller gets the given status immediately, and phones that have the INVITE get
    /// a CANCEL.
    package mutating func endedByOperator(with status: Status) -> [Order] {
        guard phase == .proceeding else { return [] }
        phase = .endedByOperator
        return [.respond(status)] + endOthers(.endedByOperator(status)) + closeIfDone()
    }

    /// Whether no device has the request yet, so that another node can continue the call.
    package var onlyWaits: Bool {
        phase == .proceeding && branches.allSatisfy { $0.isEnded || $0.isWaiting || $0.isDelayed }
    }

    /// Ends the call without a response to the caller, because another node continues the call.
    ///
    /// - Returns: the transactions in which silent devices got the request.
    package mutating func givenAway() -> [ClientTransactionID] {
        guard onlyWaits else { return [] }
        phase = .ended
        return branches.compactMap(\.client)
    }

    /// Ends the wait for devices, because the call's time limit has been reached (R18).
    package mutating func deadlineReached() -> [Order] {
        guard forwardsAtDeadline else { return endWaits() }
        // Devices whose turn has not come do not ring any more. The forwarded call still waits for the other devices.
        let orders = endDelays()
        return forwardsNow ? orders + goesForward() : orders
    }

    private mutating func endWaits() -> [Order] {
        // Devices whose turn has not come do not ring any more, because the time of the whole call is over.
        endDelays()
            + branches.indices.filter { branches[$0].isWaiting }.flatMap { index in
                [.stopWaiting(branch: index)] + failed(index, with: .temporarilyUnavailable, response: nil)
            }
    }

    /// Ends the branches whose devices have not had their turn.
    package mutating func endDelays() -> [Order] {
        let delayed = branches.indices.filter { branches[$0].isDelayed }
        guard !delayed.isEmpty else { return [] }
        for index in delayed {
            branches[index].ended(.gaveUp(.temporarilyUnavailable))
            best.consider(.temporarilyUnavailable, nil)
        }
        return closeIfDone()
    }

    // MARK: Devices that move to another flow

    /// Lets a branch wait for its device again, because the device has moved to another flow or its connection has
    /// ended. A late 2xx in the earlier transaction of the branch is still accepted.
    package mutating func recalled(_ branch: Int) { branches[branch].recalled() }

    /// Ends a cancelled branch without a final response, because its device cannot be reached now. If the device later
    /// answers with 2xx, the 2xx is still accepted.
    package mutating func abandoned(_ branch: Int) -> [Order] {
        guard branches[branch].abandoned() else { return [] }
        best.consider(.requestTerminated, nil)
        return closeIfDone()
    }

    /// Handles the failure of an earlier transaction of a branch, or a response in it other than 2xx.
    package mutating func formerSpoke(_ status: Status, _ client: ClientTransactionID, of branch: Int) {
        noteDevice(branch, status)
        if status.isFinal { formerEnded(client, of: branch) }
    }

    package mutating func formerEnded(_ client: ClientTransactionID, of branch: Int) {
        branches[branch].formerEnded(client)
    }

    /// Handles a 482 of a branch: the branch waits for its device again, unless the 482 is final.
    package mutating func loopReported(on branch: Int) -> ForkBranch.Loop {
        phase == .proceeding ? branches[branch].loopReported() : .isFinal
    }

    /// Notes that a transaction of the branch ended without a 2xx, and returns whether the branch was in the state
    /// `takingBack`.
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

    /// Ends the branches that wait, and orders a CANCEL for each INVITE that was sent.
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
        guard phase != .ended else { return [] }
        guard branches.allSatisfy(\.isEnded) else { return isReadyForNextGroup ? [.startNextGroup] : [] }
        if forwardsNow { return goesForward() }
        // If the called user has no device and the destination of the forwarded call has refused, the caller gets 480.
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

/// Forwards a call to one further destination if no phone is found. The call still waits for phones until this
/// destination rings or answers.
extension Fork {
    /// Whether the request was forwarded, or is being forwarded.
    package var hasForward: Bool { forwardBranch >= 0 }

    package func isForward(_ branch: Int) -> Bool { branch == Int(forwardBranch) }

    /// Whether the request was forwarded, and its destination has neither rung nor failed yet.
    package var isForwardPending: Bool {
        guard forwardBranch >= 0, !forwardStands, phase == .proceeding else { return false }
        switch branches[Int(forwardBranch)].state {
        case .unsent, .resumed(cancelled: nil), .resolving(_, cancelled: nil), .calling: return true
        case .delayed, .resumed, .resolving, .waiting, .takingBack, .silent, .cancelled, .ended: return false
        }
    }

    /// Whether the destination to which the call was forwarded answered.
    package var wasForwarded: Bool { taker == .forward }

    /// Whether somebody answered: a phone, somebody elsewhere, or the destination of a forward.
    package var isAnsweredOrForwarded: Bool { taker != .nobody }

    /// Whether the waits for all phones have ended without success. This includes phones that could not be reached.
    package var foundNobody: Bool {
        branches.indices.allSatisfy { isForward($0) || branches[$0].end == .gaveUp(.temporarilyUnavailable) }
    }

    /// Whether the request is forwarded as soon as the wait for all phones ends.
    package var forwardsNow: Bool { forwardsAfter(nil) }

    /// Whether the request is forwarded when the time of the whole call is over. Devices whose turn has not come do not
    /// ring any more, so they do not prevent the forward.
    package var forwardsAtDeadline: Bool { forwards { branches[$0].isWaiting || branches[$0].isDelayed } }

    /// Decides whether the request can be forwarded if no phone is found.
    package mutating func allowsForward(_ isAllowed: Bool) { mayForward = isAllowed }

    /// Whether the request is forwarded as soon as the wait of the given branch ends; `nil` stands for the waits of all
    /// branches.
    package func forwardsAfter(_ branch: Int?) -> Bool {
        forwards { index in branches[index].isWaiting && (branch == nil || branch == index) }
    }

    /// Whether the request can be forwarded, because each branch has failed already, or ends now.
    private func forwards(_ endsNow: (Int) -> Bool) -> Bool {
        guard mayForward, phase == .proceeding else { return false }
        return branches.indices.allSatisfy { branches[$0].end == .gaveUp(.temporarilyUnavailable) || endsNow($0) }
    }

    private mutating func goesForward() -> [Order] {
        mayForward = false
        return [.forward]
    }

    /// Adds a branch for the destination to which the call is forwarded.
    package mutating func forwarded() -> Int {
        branches.append(ForkBranch(device: nil))
        forwardBranch = Int16(clamping: branches.count - 1)
        return branches.count - 1
    }

    /// Ends the fork, because its request cannot be forwarded any more.
    package mutating func forwardImpossible() -> [Order] { endWaits() + closeIfDone() }

    /// Ends the wait for one device, while the call still waits for the other devices.
    package mutating func waitIsOver(_ branch: Int) -> [Order] {
        guard branches[branch].isWaiting else { return [] }
        if forwardsAfter(branch) { return goesForward() }
        return [.stopWaiting(branch: branch)] + failed(branch, with: .temporarilyUnavailable, response: nil)
    }

    /// Cancels the forwarded INVITE, because a phone has registered before the destination rang.
    package mutating func forwardWithdrawn() -> [Order] {
        guard isForwardPending else { return [] }
        return branches[Int(forwardBranch)].cancelled(.moved).client.map { [.cancel($0, .moved)] } ?? []
    }

    /// Ends the branch of the forwarded call, because the destination was silent for too long.
    package mutating func forwardTimedOut() -> [Order] { forwardWithdrawn() + endWaits() + closeIfDone() }

    /// Ends the wait for one device, because the next devices ring.
    package mutating func turnIsOver(_ branch: Int) -> [Order] {
        guard branches[branch].isWaiting else { return [] }
        return [.stopWaiting(branch: branch)] + failed(branch, with: .temporarilyUnavailable, response: nil)
    }

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

    /// Handles a refusal by the destination to which the call is forwarded. The caller does not get the destination's
    /// refusal, because the caller called somebody else.
    private mutating func forwardFailed(_ branch: Int, _ end: ForkBranch.End) -> [Order] {
        branches[branch].ended(end)
        let isOver = phase == .proceeding && branches.allSatisfy { $0.isEnded || $0.isWaiting }
        return (isOver ? endWaits() : []) + closeIfDone()
    }
}
