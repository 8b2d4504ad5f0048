import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

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
            guard case .calling(let client) = branch.state, let leg = legs.branch(client) else { continue }
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
