import Addressing
import Bytes
import Calling
import LocationService
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Phones that are awake, and phones that move while they are called.
extension ProxyEngine {
    // MARK: The device is there

    /// The device has registered, or its flow shows life.
    ///
    /// An INVITE that waits for the device goes out on that flow, once (R17). An INVITE that went to the device's
    /// earlier flow is cancelled there and sent here. An INVITE that was sent here without a response is repeated.
    ///
    /// - Parameters:
    ///   - device: the device.
    ///   - call: a call that is offered to the device.
    ///   - binding: the flow by which the device has registered; `nil` for a sign of life.
    ///   - now: both clocks.
    func deviceReturned(_ device: DeviceID, for call: ProxiedRequest, through binding: DeviceID?, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, through: binding, now: now.instant),
            hop(to: target).isOpen
        else { return }
        guard call.fork.acceptsBranches else { return tellEndThere(target, call, now: now) }
        for index in call.fork.branches.indices where call.fork.branches[index].isOf(device) {
            let branch = call.fork.branches[index]
            switch branch.state {
            case .waiting:
                if !branch.hasMoved { call.saw(binding == nil ? .showedLife : .registered) }
                if branch.device == device { divert(index, of: call, to: nil) }
                deliver(index, of: call, to: target, now: now)
            case .calling where isOnItsWay(branch, by: target, now: now),
                .takingBack where isOnItsWay(branch, by: target, now: now):
                break
            case .calling(let client), .takingBack(let client), .silent(let client):
                guard branch.addressee == device else { continue }
                if branch.routeHash == target.routeHash {
                    withTransactions { $0.peerReturned(client, now: now.instant, into: &$1) }
                    continue
                }
                call.fork.recalled(index)
                withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
                deliver(index, of: call, to: target, now: now)
            case .unsent, .resumed, .resolving, .cancelled, .ended: break
            }
        }
    }

    /// The branch goes to a contact of the user; `nil` means its own device again. The contact that the branch leaves no
    /// longer finds the call, unless another branch is for that contact.
    func divert(_ branch: Int, of call: ProxiedRequest, to contact: DeviceID?) {
        let left = call.fork.branches[branch].contact
        if let contact {
            call.fork.diverted(branch, to: contact)
            call.saw(.registered)
            wakes.waits(call, for: contact)
        } else {
            call.fork.deviceCame(branch)
        }
        guard let left, !call.fork.branches.contains(where: { $0.isOf(left) && !$0.isEnded }) else { return }
        wakes.noLongerWaits(call, for: left)
    }

    /// The call is being ended, and a phone that gets a CANCEL has moved: the CANCEL goes to the phone's new flow.
    private func tellEndThere(_ target: ForkTarget, _ call: ProxiedRequest, now: Moment) {
        guard target.path.isEmpty, !target.flow.isClosed else { return }
        for branch in call.fork.branches
        where branch.addressee == target.id && branch.routeHash != target.routeHash
            && !isOnItsWay(branch, by: target, now: now)
        {
            guard let client = branch.client else { continue }
            withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
        }
    }

    // MARK: The device's connection ends

    /// Either side has closed a stream connection. The contacts on it are asleep, and calls in progress on it wait
    /// again.
    func connectionEnded(_ flow: Flow, now: Moment) {
        registrar.bindings.flowClosed(flow)
        network.flows.ended(flow)
        // A closed connection cannot show life any more, even by messages that were read before its end.
        if flow.isConnection { wakes.flowEnded(flow) }
        for client in sip.transactions.clients(on: flow) where !goesBackToWaiting(client, now: now) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
    }

    /// A call was in progress on a connection that has ended. The transaction stays, because the phone may answer on
    /// another connection.
    private func goesBackToWaiting(_ client: ClientTransactionID, now: Moment) -> Bool {
        if let leg = sip.legs.branch(client), dialogFlowClosed(client, leg, now: now) { return true }
        guard let leg = sip.legs.branch(client), leg.call.userCall != nil else { return false }
        guard leg.call.fork.acceptsBranches else { return isCancelledLater(client, leg, now: now) }
        // The call has continued without this transaction, and only a late 2xx of it counts.
        if leg.isFormer(client) {
            sip.transactions.connectionEnded(of: client)
            takeBackAlone(client, of: leg, now: now)
            return true
        }
        let branch = leg.call.fork.branches[leg.branch]
        guard branch.client == client, let target = target(of: leg, now: now) else { return false }
        sip.transactions.connectionEnded(of: client)
        if goesOn(by: client, leg, now: now) { return true }
        leg.call.fork.recalled(leg.branch)
        // A phone without push parameters may listen at its Contact's address (T9.2). The phone may have the INVITE
        // already.
        if !target.canBeWoken, !leg.hasArrived, sendElsewhere(leg, now: now) { return true }
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// The connection of a phone that is being cancelled has ended, perhaps before the CANCEL arrived. The call ends
    /// without the phone. If the phone registers within one minute, the CANCEL follows then.
    private func isCancelledLater(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard case .cancelled(client, _) = leg.call.fork.branches[leg.branch].state, target(of: leg, now: now) != nil
        else { return false }
        sip.transactions.connectionEnded(of: client)
        update(leg.call, now: now) { $0.abandoned(leg.branch) }
        return true
    }

    // MARK: The device has the INVITE twice

    /// A 482 came. A phone that has moved sends it when it has the INVITE on both its old and its new flow.
    ///
    /// - Returns: whether the branch continues; if not, the 482 is final.
    func loopReported(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let target = target(of: leg, now: now) else { return false }
        switch leg.call.fork.loopReported(on: leg.branch) {
        case .isFinal: return false
        case .repeatNow: repeatCall(leg, now: now)
        case .takeBack(let client):
            withTransactions { table, out in
                table.cancel(client, reasons: [], now: now.instant, into: &out)
                if target.path.isEmpty, !target.flow.isClosed {
                    table.move(client, to: target.flow, now: now.instant, into: &out)
                }
            }
        }
        return true
    }

    /// A transaction ended without a 2xx. If the branch was taking a transaction back, the INVITE is sent again.
    ///
    /// - Returns: whether the branch was taking a transaction back.
    func wasTakenBack(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.takenBack(leg.branch, client) else { return false }
        repeatCall(leg, now: now)
        return true
    }

    private func repeatCall(_ leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now) else {
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        if hop(to: target).isOpen {
            deliver(leg.branch, of: leg.call, to: target, now: now)
        } else {
            waitAgain(leg.branch, of: leg.call, for: target, now: now)
        }
    }

    // MARK: Former transactions

    /// A former transaction got a response other than a 2xx, or failed without any. Such a result only shows whether
    /// the phone knows of the call.
    func formerSpoke(_ status: Status, _ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) {
        update(leg.call, now: now) { fork in
            fork.formerSpoke(status, client, of: leg.branch)
            return []
        }
    }
}

/// Calls that wait for their devices, and the events that end the wait.
extension ProxyEngine {

    /// A contact has registered: calls that wait for a reported device of the same user go to this contact. A call that
    /// the contact already has is not sent again.
    private func release(_ device: DeviceID, through contact: DeviceID, now: Moment) {
        for call in wakes.calls(of: device) {
            guard call.fork.acceptsBranches, let branch = call.fork.waitingBranch(of: device),
                let target = registrar.bindings.forkTarget(contact, now: now.instant)
            else { continue }
            if call.fork.branches.contains(where: { $0.isOf(contact) }) {
                follow(target, call, now: now)
            } else {
                divert(branch, of: call, to: contact)
                deliver(branch, of: call, to: target, now: now)
            }
        }
    }

    /// The call has a branch for the contact, but the contact has moved or never got the INVITE. A new branch calls the
    /// contact. The reported device may be another phone, so its branch keeps waiting.
    private func follow(_ target: ForkTarget, _ call: ProxiedRequest, now: Moment) {
        guard !call.fork.branches.contains(where: { $0.hasReached(target.id, by: target.routeHash) }),
            let incoming = revive(call)
        else { return }
        let branch = call.fork.added(target.id)
        list(branch, of: call)
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// An ordinary contact has registered. Calls that wait for reported devices of the same user go to this contact,
    /// each once, unless the contact has them already.
    ///
    /// Reported devices without an active push come first.
    func contactReturned(_ contact: DeviceID, of aor: AddressOfRecord, now: Moment) {
        // A REGISTER with many contacts calls this for each contact, and few users have a reported device.
        guard registrar.bindings.hasReportedDevice(aor) else { return }
        let reported = registrar.bindings.forkTargets(for: aor, now: now.instant).filter { !$0.isReachable }
        let asleep = reported.filter { isBeingPushed($0.id) }
        for device in reported.filter({ !isBeingPushed($0.id) }) + asleep {
            // The phone behind the contact may be this device, so its push has woken it.
            wakes.records.returned(device.id, now: now.instant)
            if !wakes.isEmpty { release(device.id, through: contact, now: now) }
            reportMissedCalls(to: device.id, of: aor, now: now)
        }
    }

    /// Whether a call waits for the device while the device's push is still active.
    private func isBeingPushed(_ device: DeviceID) -> Bool {
        wakes.calls(of: device).contains { call in
            guard let branch = call.fork.waitingBranch(of: device) else { return false }
            return call.fork.branches[branch].push != nil
        }
    }

    func holdDeadlineReached(_ call: ProxiedRequest, now: Moment) {
        _ = call.stopsWaiting()
        if call.fork.isForwardPending { return forwardTimedOut(call, now: now) }
        guard call.fork.isWaiting else { return }
        call.saw(.timeOver)
        // The phones are waited for until the forward rings.
        if call.fork.forwardsNow { return update(call, now: now) { $0.deadlineReached() } }
        output.counters.count(.heldTimedOut)
        if let userCall = call.userCall {
            log.info(
                "no device came back in time", [.aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID)])
        }
        for branch in call.fork.branches.indices
        where call.fork.branches[branch].isWaiting && !call.fork.branches[branch].hasMoved {
            let isSilent = call.fork.branches[branch].client != nil
            missed(branch, of: call, now: now)
            ledger.ended(branch, of: call, isSilent ? .noAnswer : .timeOver, now: now, into: &output.actions)
        }
        update(call, now: now) { $0.deadlineReached() }
    }
}

/// Requests that got no response for three seconds.
extension ProxyEngine {
    /// Three seconds have passed since a request was sent. A branch without any response continues on the next flow of its
    /// phone, because a time-out of the transaction comes too late for a call.
    ///
    /// If the phone has no other flow, a phone that also got a push counts as asleep. Inside a dialog, the phone gets a
    /// push now.
    func silenceDue(of call: ProxiedRequest, now: Moment) {
        var goesOn = false
        for branch in call.fork.branches where !branch.wasHeard {
            guard case .calling(let client) = branch.state, let leg = sip.legs.branch(client) else { continue }
            if self.goesOn(by: client, leg, now: now) { goesOn = true } else { fallsSilent(leg, now: now) }
        }
        guard call.dialogRequest != nil else { return }
        if goesOn { armSilence(of: call, now: now) } else { dialogSilenceDue(of: call, now: now) }
    }

    /// The phone got the INVITE immediately and sent no response. The phone may sleep: the hold goes on, and a dead
    /// token ends the branch. An answer in the same transaction still counts.
    func fallsSilent(_ leg: BranchLeg, now: Moment) {
        guard leg.call.userCall != nil, leg.call.fork.acceptsBranches,
            let device = leg.call.fork.branches[leg.branch].addressee
        else { return }
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else {
            // The token was found dead since, or the phone has signed out.
            leg.call.fork.fellSilent(leg.branch)
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        guard target.canBeWoken else { return }
        leg.call.fork.fellSilent(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
    }

    /// A request inside a dialog got no response for three seconds. If the device has moved, the request goes to the
    /// new flow. Otherwise the phone gets a push.
    func dialogSilenceDue(of call: ProxiedRequest, now: Moment) {
        guard !call.isForgotten, let request = call.dialogRequest, !call.fork.branches[0].wasHeard,
            call.fork.branches[0].isUnderWay,
            let target = registrar.bindings.forkTarget(request.device, now: now.instant), target.path.isEmpty
        else { return }
        list(0, of: call)
        if target.flow == call.fork.branches[0].flow {
            call.fork.aimed(0, routeHash: target.routeHash)
        } else if !target.hasFailed {
            // The device has registered on another flow since.
            for call in wakes.calls(of: request.device) {
                deviceReturned(request.device, for: call, through: nil, now: now)
            }
            return
        }
        watch(target)
        wakeInDialog(target, call, request, now: now)
    }
}
