import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Devices with several flows (RFC 5626). A request tries one flow at a time, and the next flow when that one is dead.
extension ProxyEngine {
    /// The flow on which the device last showed life, even if the device has registered by another flow since.
    func liveWay(to target: ForkTarget, now: Moment) -> ForkTarget {
        guard let life = flows.activity, !life.wasAlive(target.flow, now: now.instant),
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return target }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant)
            .first { !$0.hasFailed && isAwake($0) && life.wasAlive($0.flow, now: now.instant) } ?? target
    }

    /// Whether the request is in progress on another flow of the device that is still open. Then a REGISTER on this
    /// flow does not mean that the device has moved.
    ///
    /// The other flow counts as open after a response on it. A flow that registered less than five seconds ago counts
    /// too, since a phone opens its flows one after the other.
    func isOnItsWay(_ branch: ForkBranch, by target: ForkTarget, now: Moment) -> Bool {
        guard branch.addressee == target.id, branch.routeHash != target.routeHash,
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return false }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant).contains {
            $0.routeHash == branch.routeHash && isAwake($0)
                && (branch.wasHeard || now.date - $0.registeredAt < Self.flowsComeUp)
        }
    }

    private static let flowsComeUp: Duration = .seconds(5)

    // MARK: Silence

    /// The request was sent on a dead flow of the device: it is sent again on the next flow.
    ///
    /// - Returns: false if every other flow of the device has failed too.
    func goesOn(by client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.acceptsBranches, let next = nextFlow(of: leg, now: now) else { return false }
        log.info(
            "request goes on by another flow of its phone",
            [.callID: .bytes(leg.call.userCall?.key.callID ?? .empty), .device: .described(next.id)])
        if leg.call.userCall != nil || leg.call.dialogRequest != nil {
            leg.call.fork.recalled(leg.branch)
            // A flow that is only slow may still bring the phone to ring, so the transaction on it is cancelled.
            if leg.call.fork.isInvite, !transactions.wasLost(client) {
                withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
            }
            deliver(leg.branch, of: leg.call, to: next, now: now)
        } else if let incoming = revive(leg.call) {
            legs.end(client)
            leg.call.delivery?.triedAt = now.instant
            sendToDevice(incoming, for: leg.branch, of: leg.call, to: next, now: now)
        }
        return true
    }

    /// The next usable flow of the leg's device. Marks the present flow as failed.
    private func nextFlow(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        let branch = leg.call.fork.branches[leg.branch]
        guard let device = branch.addressee else { return nil }
        let flows = registrar.bindings.flowTargets(of: device, now: now.instant)
        guard flows.count > 1 else { return nil }
        for flow in flows where flow.routeHash == branch.routeHash { registrar.bindings.flowFailed(flow.binding) }
        return flows.first { $0.routeHash != branch.routeHash && !$0.hasFailed && isAwake($0) }
    }

    /// An edge reports with 430 that the flow to the phone is gone (RFC 5626 section 5.3.1).
    ///
    /// The request goes on by the next flow. If the phone has no other flow but a push can wake it, the branch waits
    /// for the phone. Otherwise the branch fails with 480. The 430 is not passed on.
    ///
    /// - Returns: false if the 430 is a response like any other.
    func flowFailed(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        let branch = leg.call.fork.branches[leg.branch]
        guard let flow = branch.flow, isTrusted(flow), branch.addressee != nil, leg.call.delivery == nil else {
            return false
        }
        if goesOn(by: client, leg, now: now) || sleeps(leg, now: now) { return true }
        branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        return true
    }

    // MARK: The number of a device

    func isLive(_ target: ForkTarget, now: Moment) -> Bool {
        guard let life = flows.activity else { return false }
        return now.date - target.registeredAt < settings.call.ringLiveFlowWithin
            || life.wasAlive(target.flow, now: now.instant)
    }
}
