import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Phones that are awake, and phones that move while they are called.
extension ProxyEngine {
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
        if !calls.away.isEmpty { phoneReturned(device, now: now) }
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
                    if branch.device == device { call.fork.deviceCame(index) }
                    deliver(index, of: call, to: target, now: now)
                case .calling where isOnItsWay(branch, by: target, now: now),
                    .takingBack where isOnItsWay(branch, by: target, now: now):
                    break
                case .calling(let client), .takingBack(let client), .silent(let client):
                    guard branch.addressee == device else { continue }
                    if branch.way == target.way {
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
    }

    /// The call is being ended, and a phone that is cancelled has moved: its CANCEL follows it.
    private func tellEndThere(_ target: ForkTarget, _ call: Call, now: Moment) {
        guard target.path.isEmpty, !target.flow.isClosed else { return }
        for branch in call.fork.branches
        where branch.addressee == target.id && branch.way != target.way && !isOnItsWay(branch, by: target, now: now) {
            guard let client = branch.client else { continue }
            withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
        }
    }

    // MARK: The device is not there any more

    /// A stream connection has ended, whoever ended it: its contacts are asleep, and calls that were on their way by it go
    /// back to waiting.
    func connectionEnded(_ flow: Flow, now: Moment) {
        registrar.bindings.flowClosed(flow)
        flows.life?.forgot(flow)
        flows.provedNames[flow.connection] = nil
        // What was read from it before it ended says nothing of its phones any more.
        if flow.isConnection { for device in calls.devices.waiting(on: flow) { calls.devices.unwatch(device) } }
        for client in transactions.clients(on: flow) where !goesBackToWaiting(client, now: now) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
    }

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
        guard case .cancelled(client, _) = leg.call.fork.branches[leg.branch].state, target(of: leg, now: now) != nil
        else { return false }
        transactions.connectionEnded(of: client)
        change(leg.call, now: now) { $0.abandoned(leg.branch) }
        return true
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
