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

    /// A keep-alive came, or anything else that shows that somebody is there.
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
        guard !called.watchesNothing else { return }
        for device in called.waiting(on: flow) {
            traceLife(device, by: sign)
            deviceReturned(device, now: now)
        }
    }

    /// A call waits for the device. Its flow is watched, unless it says nothing of this device alone: those of trusted
    /// peers and of edge proxies carry many.
    func watch(_ target: ForkTarget) {
        guard target.isReachable, !target.flow.isClosed, target.path.isEmpty, !isTrusted(target.flow.remote) else {
            return
        }
        called.watch(target.flow, of: target.id)
    }

    // MARK: The device is there

    /// The device has registered, or its flow shows life: every INVITE that waits for it goes out on that flow, each once
    /// (R17), one that is on its way to where the device was before follows it, and one that was sent here in vain is
    /// repeated.
    func deviceReturned(_ device: DeviceID, now: Moment) {
        called.unwatch(device)
        sayFarewells(to: device, now: now)
        for fork in called.forks(of: device) {
            guard let context = forks[fork], let target = bindings.forkTarget(device, now: now.instant),
                isAwake(target)
            else { continue }
            guard context.fork.acceptsBranches else {
                tellEndThere(target, context, now: now)
                continue
            }
            for branch in context.fork.branches.indices where context.fork.branches[branch].isOf(device) {
                switch context.fork.branches[branch].state {
                case .sleeping:
                    if context.fork.branches[branch].device == device { context.fork.branches[branch].contact = nil }
                    deliver(to: target, fork: fork, branch: branch, context, now: now)
                case .calling(let client)
                where context.fork.branches[branch].addressee == device
                    && context.fork.branches[branch].way != target.way:
                    context.fork.recalled(branch)
                    withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
                    deliver(to: target, fork: fork, branch: branch, context, now: now)
                case .calling(let client) where context.fork.branches[branch].addressee == device:
                    withTransactions { $0.peerReturned(client, now: now.instant, into: &$1) }
                case .calling, .resolving, .ended: break
                }
            }
        }
    }

    /// The call is being ended, and a phone that is cancelled has moved: its CANCEL follows it.
    private func tellEndThere(_ target: ForkTarget, _ context: ForkContext, now: Moment) {
        guard target.path.isEmpty, !target.flow.isClosed else { return }
        for branch in context.fork.branches where branch.addressee == target.id && branch.way != target.way {
            guard case .calling(let client) = branch.state else { continue }
            withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
        }
    }

    /// Sends the INVITE of a branch that has waited for its device.
    func deliver(to target: ForkTarget, fork: ForkID, branch: Int, _ context: ForkContext, now: Moment) {
        guard let call = context.call, let incoming = revive(context) else { return }
        dropPush(of: branch, in: fork)
        let isFirst = !context.fork.branches[branch].hasMoved
        if isFirst {
            counters.count(.heldDelivered)
            counters.observe(.delivery, now.date - call.receivedAt)
        }
        log.info(
            isFirst ? "call released" : "call follows its phone",
            [
                .aor: .described(call.aor), .callID: .bytes(call.key.callID), .device: .described(target.id),
                .duration: .duration(now.date - call.receivedAt),
            ])
        // A REGISTER of another contact, or from before the call, was not known as one for it. Life was.
        if isFirst, let id = context.fork.branches[branch].trace { timeline.registered(id, now: now.instant) }
        if !isFirst { takeBack(context.fork.branches[branch].former, by: target, now: now) }
        send(incoming, to: target, fork: fork, branch: branch, now: now)
    }

    /// What can still be reached of earlier transactions is cancelled: those whose connection has ended, by the way that
    /// their phone is reached now. A phone that still rings by one of them knows it by its branch (RFC 3261 section 9.2).
    private func takeBack(_ former: [ClientTransactionID], by target: ForkTarget, now: Moment) {
        for client in former where legs[client]?.isLost == true && target.path.isEmpty {
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
    private func takeBackAlone(
        _ client: ClientTransactionID, of leg: ClientLeg, _ context: ForkContext, now: Moment
    ) {
        guard let device = context.fork.branches[leg.branch].addressee,
            let target = bindings.forkTarget(device, now: now.instant), target.path.isEmpty, !target.flow.isClosed
        else { return }
        withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
    }

    // MARK: The device is not there any more

    /// A stream connection has ended, whoever ended it: its contacts are asleep, and calls that were on their way by it go
    /// back to waiting.
    package func flowClosed(_ flow: Flow, now: Moment) {
        bindings.flowClosed(flow)
        life?.forgot(flow)
        // What was read from it before it ended says nothing of its phones any more.
        if flow.isConnection { for device in called.waiting(on: flow) { called.unwatch(device) } }
        for client in transactions.clients(on: flow) where !goesBackToSleep(client, now: now) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
        settle(now: now)
    }

    /// Bytes could not be sent: there is no way to the remote, or the connection is gone.
    package func sendFailed(on flow: Flow, now: Moment) { flowClosed(flow, now: now) }

    /// A call was on its way by a connection that has ended. Its transaction stays for the answer that the phone may give
    /// by another.
    private func goesBackToSleep(_ client: ClientTransactionID, now: Moment) -> Bool {
        guard let leg = legs[client], let context = forks[leg.fork], context.call != nil, context.fork.acceptsBranches
        else { return false }
        // The call has gone on without it, and a late answer still counts.
        if isFormer(client, leg) {
            legs[client]?.isLost = true
            takeBackAlone(client, of: leg, context, now: now)
            return true
        }
        let branch = context.fork.branches[leg.branch]
        guard branch.state == .calling(client), let device = branch.addressee,
            let target = bindings.forkTarget(device, now: now.instant)
        else { return false }
        legs[client]?.isLost = true
        context.fork.recalled(leg.branch)
        // A phone without push parameters may listen where its Contact says (T9.2). It may have the INVITE already.
        if target.pushToken == nil, !leg.hasArrived, sendElsewhere(leg, context, now: now) { return true }
        waitAgain(for: target, fork: leg.fork, branch: leg.branch, context, now: now)
        return true
    }

    /// A phone that was sent the INVITE said nothing at all to it: it may have gone from there, and is waited for as long as
    /// calls wait for phones.
    func staysSilent(_ leg: ClientLeg, now: Moment) -> Bool {
        guard let context = forks[leg.fork], let call = context.call, context.fork.acceptsBranches,
            now.instant < call.holdUntil, !context.fork.branches[leg.branch].wasHeard,
            let device = context.fork.branches[leg.branch].addressee,
            let target = bindings.forkTarget(device, now: now.instant)
        else { return false }
        context.fork.recalled(leg.branch)
        waitAgain(for: target, fork: leg.fork, branch: leg.branch, context, now: now)
        return true
    }

    /// A branch waits for its device once more. The hold goes on; a device that no push has left for is woken now.
    private func waitAgain(
        for target: ForkTarget, fork: ForkID, branch: Int, _ context: ForkContext, now: Moment
    ) {
        guard let call = context.call else { return }
        log.info(
            "call waits for its phone again",
            [
                .aor: .described(call.aor), .callID: .bytes(call.key.callID), .device: .described(target.id),
            ])
        armHold(of: fork, context, now: now)
        watch(target)
        guard let token = target.pushToken, !context.fork.branches[branch].wasPushed,
            context.fork.branches[branch].push == nil, call.mayPush, let incoming = revive(context)
        else { return }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        if !context.fork.branches[branch].deviceKnows {
            tellBucket(of: call.aor) { bucket, settings in
                bucket.callOffered(
                    call.ref, caller: caller.remoteURI, at: call.receivedAt, devices: [target.id],
                    settings: settings)
            }
        }
        traceEnded(branch, of: fork, .unreachable, now: now)
        push(token, to: target, call, caller, fork: fork, branch: branch, now: now)
    }

    // MARK: The device has the INVITE twice

    /// A 482: of a phone that moved it may mean that it has the INVITE from before and from now.
    ///
    /// - Returns: whether the branch goes on.
    func metTwice(_ leg: ClientLeg, now: Moment) -> Bool {
        guard let context = forks[leg.fork], let device = context.fork.branches[leg.branch].addressee,
            let target = bindings.forkTarget(device, now: now.instant)
        else { return false }
        switch context.fork.loopReported(on: leg.branch) {
        case .isFinal: return false
        case .repeatNow: repeatCall(leg, context, now: now)
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
    func wasTakenBack(_ client: ClientTransactionID, _ leg: ClientLeg, now: Moment) -> Bool {
        guard let context = forks[leg.fork], context.fork.takenBack(leg.branch, client) else { return false }
        repeatCall(leg, context, now: now)
        return true
    }

    private func repeatCall(_ leg: ClientLeg, _ context: ForkContext, now: Moment) {
        guard let device = context.fork.branches[leg.branch].addressee,
            let target = bindings.forkTarget(device, now: now.instant)
        else { return branchFailed(leg.branch, of: leg.fork, with: .temporarilyUnavailable, now: now) }
        if !isAwake(target) {
            waitAgain(for: target, fork: leg.fork, branch: leg.branch, context, now: now)
        } else {
            deliver(to: target, fork: leg.fork, branch: leg.branch, context, now: now)
        }
    }

    // MARK: Transactions from before

    /// The branch has another transaction by now; this one is only of interest for its 2xx.
    func isFormer(_ client: ClientTransactionID, _ leg: ClientLeg) -> Bool {
        forks[leg.fork]?.fork.branches[leg.branch].former.contains(client) == true
    }

    /// It has answered otherwise, or not at all: that counts for nothing, but that the phone knows of the call.
    func formerSpoke(_ status: Status, _ client: ClientTransactionID, _ leg: ClientLeg, now: Moment) {
        change(leg.fork, now: now) { fork in
            fork.formerSpoke(status, client, of: leg.branch)
            return []
        }
    }
}
