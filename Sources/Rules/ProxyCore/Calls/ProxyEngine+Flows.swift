import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Devices with several flows (RFC 5626): one flow at a time is tried, and the next one when it turns out to be dead.
extension ProxyEngine {
    /// A device whose flow shows life rings there, even if it registered by another one since.
    func liveWay(to target: ForkTarget, now: Moment) -> ForkTarget {
        guard let life = flows.life, !life.wasAlive(target.flow, now: now.instant),
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return target }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant)
            .first { !$0.hasFailed && isAwake($0) && life.wasAlive($0.flow, now: now.instant) } ?? target
    }

    /// Whether the request is on its way by another flow of the device, which is still there: that the device has registered
    /// by this one does not mean then that it has moved.
    ///
    /// It is there when something has come back by it, or when it was registered a moment ago, by a phone that brings its
    /// flows up one after the other.
    func isOnItsWay(_ branch: ForkBranch, by target: ForkTarget, now: Moment) -> Bool {
        guard branch.addressee == target.id, branch.way != target.way,
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return false }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant).contains {
            $0.way == branch.way && isAwake($0)
                && (branch.wasHeard || now.date - $0.registeredAt < Self.flowsComeUp)
        }
    }

    private static let flowsComeUp: Duration = .seconds(5)

    // MARK: Silence

    /// The request was sent by a flow that is dead: it goes to the device by the next one.
    ///
    /// - Returns: false when there is none that has not failed as well.
    func goesOn(by client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.acceptsBranches, let next = nextFlow(of: leg, now: now) else { return false }
        log.info(
            "request goes on by another flow of its phone",
            [.callID: .bytes(leg.call.offer?.key.callID ?? .empty), .device: .described(next.id)])
        if leg.call.offer != nil || leg.call.dialogRequest != nil {
            leg.call.fork.recalled(leg.branch)
            // A flow that was only slow may bring the phone to ring by this transaction after all.
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

    /// The next flow of the device that a leg leads to, after its present one has failed.
    private func nextFlow(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        let branch = leg.call.fork.branches[leg.branch]
        guard let device = branch.addressee else { return nil }
        let flows = registrar.bindings.flowTargets(of: device, now: now.instant)
        guard flows.count > 1 else { return nil }
        for flow in flows where flow.way == branch.way { registrar.bindings.flowFailed(flow.binding) }
        return flows.first { $0.way != branch.way && !$0.hasFailed && isAwake($0) }
    }

    /// An edge says that the flow to the phone is gone (RFC 5626 section 5.3.1): the next one is tried; if there is none, a
    /// phone that can be woken is asleep, and any other is not there. Nobody before us is told of flows.
    ///
    /// - Returns: false when a 430 is a response like any other.
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
        guard let life = flows.life else { return false }
        return now.date - target.registeredAt < settings.call.ringLiveFlowWithin
            || life.wasAlive(target.flow, now: now.instant)
    }
}
