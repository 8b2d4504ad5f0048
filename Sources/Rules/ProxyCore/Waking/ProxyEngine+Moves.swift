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

/// Sends calls to phones that have woken, and to phones that change their flow during an INVITE.
extension ProxyEngine {
    // MARK: The device is there

    /// Sends a waiting or ringing call on the flow on which the device has registered or sent a message.
    ///
    /// An INVITE that still waits for the device is sent once (R17). An INVITE on an earlier flow of the device is
    /// cancelled there, and sent on the new flow. An INVITE without a response is sent again if the device has
    /// registered again on the same flow.
    ///
    /// The parameter `binding` is the binding of the device's REGISTER; `nil` after a message other than a REGISTER.
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
            // If the turn of a device has not come, a REGISTER does not make the device ring earlier.
            case .unsent, .delayed, .resumed, .resolving, .cancelled, .ended: break
            }
        }
    }

    /// Directs a fork branch to another contact of the user. If `contact` is `nil`, the branch is directed back to its
    /// own device. The call leaves the waiting list of the branch's former contact, unless another branch is directed
    /// to that contact.
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

    /// If the phone has moved, also sends the CANCEL of an ending call on the phone's new flow.
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

    /// Handles a closed stream connection. The contacts on the connection are treated as asleep, and its calls wait for
    /// their phones again.
    func connectionEnded(_ flow: Flow, now: Moment) {
        registrar.bindings.flowClosed(flow)
        if network.flows.haveNodes { nodeConnectionEnded(flow, now: now) }
        network.flows.ended(flow)
        // The closed connection is removed first, so that its queued messages are no longer treated as messages of an
        // awake phone.
        if flow.isConnection { wakes.flowEnded(flow) }
        for client in sip.transactions.clients(on: flow) { connectionEnded(of: client, now: now) }
    }

    /// Handles the end of the connection of one request.
    func connectionEnded(of client: ClientTransactionID, now: Moment) {
        guard !goesBackToWaiting(client, now: now) else { return }
        withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
    }

    /// Lets a call wait for its phone again, because the phone's connection has ended. The client transaction of the
    /// INVITE stays, because the phone may answer on another connection.
    private func goesBackToWaiting(_ client: ClientTransactionID, now: Moment) -> Bool {
        if let leg = sip.legs.branch(client), dialogFlowClosed(client, leg, now: now) { return true }
        guard let leg = sip.legs.branch(client), leg.call.userCall != nil else { return false }
        guard leg.call.fork.acceptsBranches else { return isCancelledLater(client, leg, now: now) }
        // If the call continues on another flow, its earlier transaction accepts only a late 2xx.
        if leg.isFormer(client) {
            sip.connectionEnded(of: client)
            takeBackAlone(client, of: leg, now: now)
            return true
        }
        let branch = leg.call.fork.branches[leg.branch]
        guard branch.client == client, let target = target(of: leg, now: now) else { return false }
        sip.connectionEnded(of: client)
        if goesOn(by: client, leg, now: now) { return true }
        leg.call.fork.recalled(leg.branch)
        // The INVITE is sent to the Contact address of a phone without push token (T9.2), unless the INVITE has arrived
        // at the phone.
        if !target.canBeWoken, !leg.hasArrived, sendElsewhere(leg, now: now) { return true }
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// Handles the end of a connection on which a CANCEL may be lost, so that the phone may still ring. The CANCEL is
    /// sent again if the phone registers within one minute.
    private func isCancelledLater(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard case .cancelled(client, _) = leg.call.fork.branches[leg.branch].state, target(of: leg, now: now) != nil
        else { return false }
        sip.connectionEnded(of: client)
        update(leg.call, now: now) { $0.abandoned(leg.branch) }
        return true
    }

}

/// Sends waiting calls to the devices that they wait for, and ends waits that took too long.
extension ProxyEngine {

    /// Sends the calls that wait for a user's HTTP-reported device to a contact of the same user that has registered. A
    /// contact that already has a call does not get the call again.
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

    /// Sends a call to a contact that has registered, on a new fork branch or again on the contact's fork branch. The
    /// fork branch of the HTTP-reported device keeps waiting, because the reported device may be another phone.
    private func follow(_ target: ForkTarget, _ call: ProxiedRequest, now: Moment) {
        guard !call.fork.branches.contains(where: { $0.hasReached(target.id, by: target.routeHash) }),
            let incoming = revive(call)
        else { return }
        let branch = call.fork.added(target.id)
        list(branch, of: call)
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// Handles the REGISTER of a contact without push token; the contact may be the phone of an HTTP-reported device.
    ///
    /// A new contact gets each call that waits for the user's HTTP-reported devices once. Calls for a reported device
    /// with a push in flight are sent last.
    func contactReturned(_ contact: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard registrar.bindings.hasReportedDevice(aor) else { return }
        let reported = registrar.bindings.forkTargets(for: aor, now: now.instant).filter { !$0.isReachable }
        let asleep = reported.filter { isBeingPushed($0.id) }
        for device in reported.filter({ !isBeingPushed($0.id) }) + asleep {
            // The REGISTER is treated as a wake of the HTTP-reported device, because the contact may be the device's
            // phone.
            wakes.records.returned(device.id, now: now.instant)
            if !wakes.isEmpty { release(device.id, through: contact, now: now) }
            reportMissedCalls(to: device.id, of: aor, now: now)
        }
    }

    /// Whether a call waits for the device while the device's push has no final result.
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
        // A forwarded call waits for its phones until the forward destination rings.
        if call.fork.forwardsAtDeadline { return update(call, now: now) { $0.deadlineReached() } }
        output.counters.count(.heldTimedOut)
        if let userCall = call.userCall {
            log.info(
                "the daemon stopped waiting for phones, because no phone registered within the call's ring time",
                [.aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID)])
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

/// Handles requests that got no response for three seconds.
extension ProxyEngine {
    /// Handles each branch of a call that got no response for three seconds: tries another flow, or lets the branch
    /// wait for the phone.
    ///
    /// The engine does not wait for the transaction's time-out, which would be too late for a call. If a silent phone
    /// has no other flow and a push can wake it, the phone is treated as asleep. A request inside a dialog causes a
    /// push only after it has had no response for three seconds.
    func silenceDue(of call: ProxiedRequest, now: Moment) {
        var goesOn = false
        for branch in call.fork.branches where !branch.wasHeard {
            guard case .calling(let client) = branch.state, let leg = sip.legs.branch(client) else { continue }
            if self.goesOn(by: client, leg, now: now) { goesOn = true } else { fallsSilent(leg, now: now) }
        }
        guard call.dialogRequest != nil else { return }
        if goesOn { armSilence(of: call, now: now) } else { dialogSilenceDue(of: call, now: now) }
    }

    /// Lets a call wait for a silent phone that may sleep, if a push can wake the phone. A later response of the silent
    /// phone to the INVITE still counts.
    func fallsSilent(_ leg: BranchLeg, now: Moment) {
        guard leg.call.userCall != nil, leg.call.fork.acceptsBranches,
            let device = leg.call.fork.branches[leg.branch].addressee
        else { return }
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else {
            // The silent phone's contact was removed, because its push token is dead or the phone has signed out.
            leg.call.fork.fellSilent(leg.branch)
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        guard target.canBeWoken else { return }
        leg.call.fork.fellSilent(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
    }

    /// Handles a request inside a dialog that got no response for three seconds: tries the phone's new flow, or wakes
    /// the phone.
    func dialogSilenceDue(of call: ProxiedRequest, now: Moment) {
        guard !call.isForgotten, let request = call.dialogRequest, !call.fork.branches[0].wasHeard,
            call.fork.branches[0].isUnderWay,
            let target = registrar.bindings.forkTarget(request.device, now: now.instant), target.path.isEmpty
        else { return }
        list(0, of: call)
        if target.flow == call.fork.branches[0].flow {
            call.fork.aimed(0, routeHash: target.routeHash)
        } else if !target.hasFailed {
            // The device has registered on a new flow, so the engine sends its calls on the new flow.
            for call in wakes.calls(of: request.device) {
                deviceReturned(request.device, for: call, through: nil, now: now)
            }
            return
        }
        watch(target)
        wakeInDialog(target, call, request, now: now)
    }
}
