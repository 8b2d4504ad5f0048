import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Delivery of a call to one device, and the wait for that device.
extension ProxyEngine {
    /// A call waits for the device, so the device's flow is watched for signs of life. Flows of trusted peers and edge
    /// proxies carry many devices and are not watched.
    func watch(_ target: ForkTarget) {
        if isWatched(target) { wakes.watch(target.flow, of: target.id) }
    }

    /// From now on the branch is found by its device.
    func list(_ branch: Int, of call: ProxiedRequest) {
        guard let device = call.fork.branches[branch].device else { return }
        call.fork.wasListed(branch)
        wakes.waits(call, for: device)
    }

    /// Whether a sign of life on the flow can only come from this device.
    func isWatched(_ target: ForkTarget) -> Bool {
        target.isReachable && !target.flow.isClosed && target.path.isEmpty && !isTrusted(target.flow)
    }

    /// The device that a leg's request goes to, with its present registration.
    func target(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
    }

    /// Sends the INVITE of a branch that has waited for its device.
    func deliver(_ branch: Int, of call: ProxiedRequest, to target: ForkTarget, now: Moment) {
        if let request = call.dialogRequest { return deliver(request, of: call, to: target, now: now) }
        guard let userCall = call.userCall, let incoming = revive(call) else { return }
        ledger.drop(branch, of: call, now: now, into: &actions)
        let isFirst = !call.fork.branches[branch].hasMoved
        if isFirst {
            counters.count(.heldDelivered)
            counters.observe(.delivery, now.date - userCall.receivedAt)
        }
        log.info(
            isFirst ? "call released" : "call follows its phone",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .device: .described(target.id),
                .duration: .duration(now.date - userCall.receivedAt),
            ])
        // The timeline record has no REGISTER yet if another contact registered, or if the REGISTER came before the
        // call.
        ledger.registered(call.fork.branches[branch], now: now)
        if !isFirst { takeBack(call.fork.branches[branch].former, by: target, now: now) }
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// Cancels earlier transactions whose connections have ended. The CANCEL goes to the phone's present flow. A phone
    /// that still rings by an earlier transaction recognises the CANCEL by its branch (RFC 3261 section 9.2).
    func takeBack(_ former: [ClientTransactionID], by target: ForkTarget, now: Moment) {
        for client in former where transactions.wasLost(client) && target.path.isEmpty {
            takeBack(client, by: target.flow, reasons: [], now: now)
        }
    }

    func takeBack(_ client: ClientTransactionID, by flow: Flow, reasons: [ByteString], now: Moment) {
        withTransactions { table, out in
            table.move(client, to: flow, now: now.instant, into: &out)
            table.cancel(client, reasons: reasons, now: now.instant, into: &out)
        }
    }

    /// The transaction's connection ended after the phone had moved. If a CANCEL was lost with the connection, it goes
    /// to the phone's present flow.
    func takeBackAlone(_ client: ClientTransactionID, of leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now), target.path.isEmpty, !target.flow.isClosed else { return }
        withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
    }

    /// A phone sent no response to the INVITE, and may have left that flow. The branch waits for the phone until the
    /// end of the hold.
    func staysSilent(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let userCall = leg.call.userCall, leg.call.fork.acceptsBranches, now.instant < userCall.holdUntil,
            !leg.call.fork.branches[leg.branch].wasHeard, let target = target(of: leg, now: now)
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// An edge reports that the phone's flow is gone. If a push can wake the phone, the branch waits for it.
    func sleeps(_ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.userCall != nil, leg.call.fork.acceptsBranches, let target = target(of: leg, now: now),
            target.canBeWoken
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// A branch waits for its device again, and the hold continues. A device that got no push yet is woken now.
    func waitAgain(_ index: Int, of call: ProxiedRequest, for target: ForkTarget, now: Moment) {
        guard let userCall = call.userCall else { return }
        log.info(
            "call waits for its phone again",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .device: .described(target.id),
            ])
        armHold(of: call, now: now)
        watch(target)
        let branch = call.fork.branches[index]
        defer { journal(call) }
        guard let token = target.pushToken, !branch.wasPushed, branch.push == nil, userCall.mayPush,
            let incoming = revive(call)
        else { return }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        if !branch.deviceKnows {
            ledger.callOffered(
                userCall, from: caller, at: userCall.receivedAt, to: [target.id], into: &actions)
        }
        ledger.ended(index, of: call, .unreachable, now: now, into: &actions)
        ledger.wake(target, token, for: index, of: call, userCall, caller, now: now, into: &actions)
    }
}
