package import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
package import Timekeeping

/// Phones that are awake, and phones that move while they are called.
extension ProxyEngine {
    // MARK: Life

    /// A keep-alive came on the flow, or anything else that shows that somebody is there.
    package func flowAlive(_ flow: Flow, now: Moment) {
        noteLife(on: flow, by: .keepAlive, now: now)
        settle(now: now)
    }

    /// The first sign of life on the flow that a device registered on lets the calls out that wait for it: an awake phone
    /// that is told of a push may have no reason to register again.
    ///
    /// REGISTERs are no such sign. They let calls out by being accepted: a program that has just been started at the same
    /// address is not the phone that registered until it has done so.
    func noteLife(on flow: Flow, by sign: TimelineRecord.SignOfLife, now: Moment) {
        life?.noted(on: flow, now: now.instant)
        showedLife(on: flow, now: now)
        guard !calls.devices.watchesNothing else { return }
        for device in calls.devices.waiting(on: flow) {
            for call in calls.devices.calls(of: device) {
                guard let branch = call.fork.waitingBranch(of: device) else { continue }
                ledger.showedLife(call.fork.branches[branch], by: sign)
            }
            deviceReturned(device, through: nil, now: now)
            if !messages.isEmpty, let aor = registrar.bindings.binding(device)?.aor {
                messagesReturn(to: device, of: aor, now: now)
            }
        }
    }

    /// A call waits for the device. Its flow is watched, unless it says nothing of this device alone: those of trusted
    /// peers and of edge proxies carry many.
    func watch(_ target: ForkTarget) {
        if isWatched(target) { calls.devices.watch(target.flow, of: target.id) }
    }

    /// Whether a sign of life on its flow is the device's own.
    func isWatched(_ target: ForkTarget) -> Bool {
        target.isReachable && !target.flow.isClosed && target.path.isEmpty && !isTrusted(target.flow)
    }

    // MARK: The device is there

    /// The device has registered, or its flow shows life: every INVITE that waits for it goes out on that flow, each once
    /// (R17), one that is on its way to where the device was before follows it, and one that was sent here in vain is
    /// repeated.
    ///
    /// - Parameters:
    ///   - device: the device.
    ///   - binding: by which of its flows it has registered, if it has.
    ///   - now: both clocks.
    func deviceReturned(_ device: DeviceID, through binding: DeviceID?, now: Moment) {
        calls.devices.unwatch(device)
        if !awayCallers.isEmpty { phoneReturned(device, now: now) }
        sayFarewells(to: device, now: now)
        for call in calls.devices.calls(of: device) {
            guard let target = registrar.bindings.forkTarget(device, through: binding, now: now.instant),
                isAwake(target)
            else {
                continue
            }
            guard call.fork.acceptsBranches else {
                tellEndThere(target, call, now: now)
                continue
            }
            for index in call.fork.branches.indices where call.fork.branches[index].isOf(device) {
                let branch = call.fork.branches[index]
                switch branch.state {
                case .waiting:
                    if branch.device == device { call.fork.diverted(index, to: nil) }
                    deliver(index, of: call, to: target, now: now)
                case .calling where isOnItsWay(branch, by: target, now: now): break
                case .calling(let client), .silent(let client):
                    guard branch.addressee == device else { continue }
                    if branch.way == target.way {
                        withTransactions { $0.peerReturned(client, now: now.instant, into: &$1) }
                        continue
                    }
                    call.fork.recalled(index)
                    withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
                    deliver(index, of: call, to: target, now: now)
                case .unsent, .resolving, .ended: break
                }
            }
        }
    }

    /// The call is being ended, and a phone that is cancelled has moved: its CANCEL follows it.
    private func tellEndThere(_ target: ForkTarget, _ call: Call, now: Moment) {
        guard target.path.isEmpty, !target.flow.isClosed else { return }
        for branch in call.fork.branches
        where branch.addressee == target.id && branch.way != target.way && !isOnItsWay(branch, by: target, now: now) {
            guard case .calling(let client) = branch.state else { continue }
            withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
        }
    }

    /// The device that a leg's request goes to, as it is registered now.
    private func target(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
    }

    /// Sends the INVITE of a branch that has waited for its device.
    func deliver(_ branch: Int, of call: Call, to target: ForkTarget, now: Moment) {
        if let request = call.dialogRequest { return deliver(request, of: call, to: target, now: now) }
        guard let offer = call.offer, let incoming = revive(call) else { return }
        ledger.drop(branch, of: call, now: now, into: &actions)
        let isFirst = !call.fork.branches[branch].hasMoved
        if isFirst {
            counters.count(.heldDelivered)
            counters.observe(.delivery, now.date - offer.receivedAt)
        }
        log.info(
            isFirst ? "call released" : "call follows its phone",
            [
                .aor: .described(offer.aor), .callID: .bytes(offer.key.callID), .device: .described(target.id),
                .duration: .duration(now.date - offer.receivedAt),
            ])
        // A REGISTER of another contact, or from before the call, has not been noted for this record yet.
        ledger.registered(call.fork.branches[branch], now: now)
        if !isFirst { takeBack(call.fork.branches[branch].former, by: target, now: now) }
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// What can still be reached of earlier transactions is cancelled: those whose connection has ended, by the way that
    /// their phone is reached now. A phone that still rings by one of them knows it by its branch (RFC 3261 section 9.2).
    private func takeBack(_ former: [ClientTransactionID], by target: ForkTarget, now: Moment) {
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

    /// Its connection ended after its phone had moved: a CANCEL that was lost with it goes where the phone is.
    private func takeBackAlone(_ client: ClientTransactionID, of leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now), target.path.isEmpty, !target.flow.isClosed else { return }
        withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
    }

    // MARK: The device is not there any more

    /// A stream connection has ended, whoever ended it: its contacts are asleep, and calls that were on their way by it go
    /// back to waiting.
    package func flowClosed(_ flow: Flow, now: Moment) {
        registrar.bindings.flowClosed(flow)
        life?.forgot(flow)
        provedNames[flow.connection] = nil
        // What was read from it before it ended says nothing of its phones any more.
        if flow.isConnection { for device in calls.devices.waiting(on: flow) { calls.devices.unwatch(device) } }
        for client in transactions.clients(on: flow) where !goesBackToWaiting(client, now: now) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
        settle(now: now)
    }

    /// Bytes could not be sent: there is no way to the remote, or the connection is gone.
    package func sendFailed(on flow: Flow, now: Moment) { flowClosed(flow, now: now) }

    /// A call was on its way by a connection that has ended. Its transaction stays for the answer that the phone may give
    /// by another.
    private func goesBackToWaiting(_ client: ClientTransactionID, now: Moment) -> Bool {
        if let leg = legs.branch(client), dialogFlowClosed(client, leg, now: now) { return true }
        guard let leg = legs.branch(client), leg.call.offer != nil else { return false }
        guard leg.call.fork.acceptsBranches else { return isCancelledLater(client, leg, now: now) }
        // The call has gone on without this transaction, and only a late answer of it counts.
        if leg.isFormer(client) {
            transactions.connectionEnded(of: client)
            takeBackAlone(client, of: leg, now: now)
            return true
        }
        let branch = leg.call.fork.branches[leg.branch]
        guard branch.client == client, let target = target(of: leg, now: now) else { return false }
        transactions.connectionEnded(of: client)
        if goesOn(by: client, leg, now: now) { return true }
        leg.call.fork.recalled(leg.branch)
        // A phone without push parameters may listen where its Contact says (T9.2). It may have the INVITE already.
        if !target.canBeWoken, !leg.hasArrived, sendElsewhere(leg, now: now) { return true }
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// The connection of a phone that is being cancelled has ended, and the CANCEL may be lost with it. The call ends without
    /// the phone, which gets its CANCEL when it comes back within a minute.
    private func isCancelledLater(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        let branch = leg.call.fork.branches[leg.branch]
        guard branch.state == .calling(client), case .cancelled? = branch.end, target(of: leg, now: now) != nil else {
            return false
        }
        transactions.connectionEnded(of: client)
        change(leg.call, now: now) { $0.abandoned(leg.branch) }
        return true
    }

    /// A phone that was sent the INVITE said nothing at all to it: it may have gone from there, and is waited for as long as
    /// calls wait for phones.
    func staysSilent(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let offer = leg.call.offer, leg.call.fork.acceptsBranches, now.instant < offer.holdUntil,
            !leg.call.fork.branches[leg.branch].wasHeard, let target = target(of: leg, now: now)
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// A phone that can be woken is not there any more, as somebody says who knows.
    func sleeps(_ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.offer != nil, leg.call.fork.acceptsBranches, let target = target(of: leg, now: now),
            target.canBeWoken
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    /// A branch waits for its device once more. The hold goes on; a device that no push has left for is woken now.
    func waitAgain(_ index: Int, of call: Call, for target: ForkTarget, now: Moment) {
        guard let offer = call.offer else { return }
        log.info(
            "call waits for its phone again",
            [
                .aor: .described(offer.aor), .callID: .bytes(offer.key.callID), .device: .described(target.id),
            ])
        armHold(of: call, now: now)
        watch(target)
        let branch = call.fork.branches[index]
        defer { journal(call) }
        guard let token = target.pushToken, !branch.wasPushed, branch.push == nil, offer.mayPush,
            let incoming = revive(call)
        else { return }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        if !branch.deviceKnows {
            ledger.callOffered(
                offer, from: caller, at: offer.receivedAt, to: [target.id], into: &actions)
        }
        ledger.ended(index, of: call, .unreachable, now: now, into: &actions)
        ledger.wake(target, token, for: index, of: call, offer, caller, now: now, into: &actions)
    }

    // MARK: The device has the INVITE twice

    /// A 482: of a phone that moved it may mean that it has the INVITE from before and from now.
    ///
    /// - Returns: whether the branch goes on.
    func metTwice(_ leg: BranchLeg, now: Moment) -> Bool {
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

    /// The transaction that the phone met first is over: the INVITE goes out once more.
    ///
    /// - Returns: whether it was that transaction.
    func wasTakenBack(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.takenBack(leg.branch, client) else { return false }
        repeatCall(leg, now: now)
        return true
    }

    private func repeatCall(_ leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now) else {
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        if isAwake(target) {
            deliver(leg.branch, of: leg.call, to: target, now: now)
        } else {
            waitAgain(leg.branch, of: leg.call, for: target, now: now)
        }
    }

    // MARK: Transactions from before

    /// A former transaction had a response other than a 2xx, or none at all. It counts for nothing, except that the phone may
    /// know of the call by it.
    func formerSpoke(_ status: Status, _ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) {
        change(leg.call, now: now) { fork in
            fork.formerSpoke(status, client, of: leg.branch)
            return []
        }
    }
}
