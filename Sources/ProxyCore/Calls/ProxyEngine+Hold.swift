import Addressing
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// Calls that wait for their devices, and what ends the wait.
extension ProxyEngine {
    /// Starts the clock of a call that waits for a device. The ring timeout, lowered by the INVITE's own Expires, counts from
    /// the INVITE; a phone that is lost later still has a little time to come back.
    func armHold(of call: Call, now: Moment) {
        guard call.deadline == .none, let offer = call.offer else { return }
        let end = offer.holdUntil > now.instant ? offer.holdUntil : now.instant + Self.returnTime
        call.deadline = timers.schedule(.holdDeadline(place: call.place), at: end)
    }

    private static let returnTime: Duration = .seconds(10)

    func holdTime(of request: SIPRequest) -> Duration {
        guard let expires = request.expires else { return settings.call.ringTimeout }
        return min(settings.call.ringTimeout, .seconds(Int64(expires)))
    }

    /// Sends every INVITE that waits for a device that was only reported to a contact of its user, unless the call has gone
    /// there already.
    private func release(_ device: DeviceID, through contact: DeviceID, now: Moment) {
        for call in calls.devices.calls(of: device) {
            guard call.fork.acceptsBranches, let branch = call.fork.waitingBranch(of: device),
                let target = registrar.bindings.forkTarget(contact, now: now.instant)
            else { continue }
            if call.fork.branches.contains(where: { $0.isOf(contact) }) {
                follow(target, call, now: now)
            } else {
                call.fork.diverted(branch, to: contact)
                calls.devices.add(call, to: contact)
                deliver(branch, of: call, to: target, now: now)
            }
        }
    }

    /// The call went to a place that the contact has left, or could not be sent there: it follows the contact on a branch of
    /// its own. The device that was woken may be another one, so its branch goes on waiting.
    private func follow(_ target: ForkTarget, _ call: Call, now: Moment) {
        guard !call.fork.branches.contains(where: { $0.hasReached(target.id, by: target.way) }),
            let incoming = revive(call)
        else { return }
        let branch = call.fork.added(target.id)
        calls.list(branch, of: call)
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// An ordinary contact has registered. Calls that wait for devices of its user which have only been reported go there,
    /// each once, unless the contact has them already. Of several such devices, one whose push has left comes first.
    func contactReturned(_ contact: DeviceID, of aor: AddressOfRecord, now: Moment) {
        // A REGISTER of many contacts asks this for each, and hardly anybody has one.
        guard registrar.bindings.hasReportedDevice(aor) else { return }
        let reported = registrar.bindings.forkTargets(for: aor, now: now.instant).filter { !$0.isReachable }
        let asleep = reported.filter { isBeingPushed($0.id) }
        for device in reported.filter({ !isBeingPushed($0.id) }) + asleep {
            if !calls.devices.isEmpty { release(device.id, through: contact, now: now) }
            reportMissedCalls(to: device.id, of: aor, now: now)
        }
    }

    /// Whether a call waits for the device whose push the provider has not taken yet.
    private func isBeingPushed(_ device: DeviceID) -> Bool {
        calls.devices.calls(of: device).contains { call in
            guard let branch = call.fork.waitingBranch(of: device) else { return false }
            return call.fork.branches[branch].push != nil
        }
    }

    func holdDeadlineReached(_ call: Call, now: Moment) {
        call.deadline = .none
        guard call.fork.isWaiting else { return }
        counters.count(.heldTimedOut)
        if let offer = call.offer {
            log.info("no device came back in time", [.aor: .described(offer.aor), .callID: .bytes(offer.key.callID)])
        }
        for branch in call.fork.branches.indices
        where call.fork.branches[branch].isWaiting && !call.fork.branches[branch].hasMoved {
            let isSilent = call.fork.branches[branch].client != nil
            ledger.ended(branch, of: call, isSilent ? .noAnswer : .timeOver, now: now, into: &actions)
        }
        change(call, now: now) { $0.deadlineReached() }
    }

    /// The device is gone from its AOR: unregistered, or its token is dead.
    func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        if let heir = registrar.bindings.takeHeir(of: device) { handOver(from: device, to: heir, of: aor, now: now) }
        ledger.deviceRemoved(device, of: aor, into: &actions)
        if !messages.isEmpty { messagesLose(device, of: aor, now: now) }
        counters.count(.bindingRemoved)
        for call in calls.devices.calls(of: device) {
            guard let branch = call.fork.waitingBranch(of: device) else { continue }
            counters.count(.heldDeviceGone)
            ledger.drop(branch, of: call, now: now, into: &actions)
            ledger.ended(branch, of: call, cause, now: now, into: &actions)
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
        }
    }
}
