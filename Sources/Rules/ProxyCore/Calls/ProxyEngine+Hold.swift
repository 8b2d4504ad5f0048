import Addressing
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

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
        call.deadline = .none
        guard call.fork.isWaiting else { return }
        counters.count(.heldTimedOut)
        if let userCall = call.userCall {
            log.info(
                "no device came back in time", [.aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID)])
        }
        for branch in call.fork.branches.indices
        where call.fork.branches[branch].isWaiting && !call.fork.branches[branch].hasMoved {
            let isSilent = call.fork.branches[branch].client != nil
            ledger.ended(branch, of: call, isSilent ? .noAnswer : .timeOver, now: now, into: &actions)
        }
        update(call, now: now) { $0.deadlineReached() }
    }
}
