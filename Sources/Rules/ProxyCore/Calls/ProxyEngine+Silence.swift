import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Requests that have had no response for a while.
extension ProxyEngine {
    /// A request was sent a while ago. What has no answer at all goes on by the next flow of its phone: to wait for its
    /// transaction to time out would take longer than a call rings. When there is none, a phone that was also pushed is
    /// taken for asleep, and inside a dialog it is woken.
    func silenceDue(of call: Call, now: Moment) {
        var goesOn = false
        for branch in call.fork.branches where !branch.wasHeard {
            guard case .calling(let client) = branch.state, let leg = legs.branch(client) else { continue }
            if self.goesOn(by: client, leg, now: now) { goesOn = true } else { fallsSilent(leg, now: now) }
        }
        guard call.dialogRequest != nil else { return }
        if goesOn { armSilence(of: call, now: now) } else { dialogSilenceDue(of: call, now: now) }
    }

    /// The phone got the INVITE at once and has said nothing. It may sleep: the hold goes on, and what the provider says of its
    /// token counts. An answer by the same transaction still has the call.
    func fallsSilent(_ leg: BranchLeg, now: Moment) {
        guard leg.call.offer != nil, leg.call.fork.acceptsBranches,
            let device = leg.call.fork.branches[leg.branch].addressee
        else { return }
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else {
            // Its token turned out to be dead meanwhile, or it has signed out.
            leg.call.fork.fellSilent(leg.branch)
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        guard target.canBeWoken else { return }
        leg.call.fork.fellSilent(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
    }

    /// Nothing may have come back for a while.
    func dialogSilenceDue(of call: Call, now: Moment) {
        guard !call.isForgotten, let request = call.dialogRequest, !call.fork.branches[0].wasHeard,
            call.fork.branches[0].isUnderWay,
            let target = registrar.bindings.forkTarget(request.device, now: now.instant), target.path.isEmpty
        else { return }
        calls.list(0, of: call)
        if target.flow == call.fork.branches[0].flow {
            call.fork.aimed(0, way: target.way)
        } else if !target.hasFailed {
            // It has registered elsewhere since.
            return deviceReturned(request.device, through: nil, now: now)
        }
        watch(target)
        wakeInDialog(target, call, request, now: now)
    }
}
