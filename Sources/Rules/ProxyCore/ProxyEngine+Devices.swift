import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// A device is there, shows life, or is gone: whatever waits for it hears so from here, and in this order.
///
/// What can wait for a device: a caller of an earlier run, a call that is over, a call's branch, a request inside a dialog, a
/// message, and a list of missed calls.
extension ProxyEngine {
    /// A device has registered through a binding, which is a push contact or not; `nil` when that is to be looked up.
    func bindingReturned(_ binding: DeviceID, of aor: AddressOfRecord, isPush: Bool?, now: Moment) {
        let device = registrar.bindings.device(of: binding)
        if !calls.devices.isEmpty || !calls.ended.isEmpty || !calls.away.isEmpty {
            deviceReturned(device, through: binding, now: now)
        }
        if !messages.isEmpty { messagesReturn(to: device, of: aor, now: now) }
        if !legs.asked.isAsked(device) { reportMissedCalls(to: device, of: aor, now: now) }
        // A phone that was reported with its token, and registers without: nobody else knows which of the two it is.
        if !(isPush ?? registrar.bindings.isPush(device)) { contactReturned(device, of: aor, now: now) }
    }

    /// The first sign of life on the flow that a device registered on lets the calls out that wait for it: an awake phone
    /// that is told of a push may have no reason to register again.
    ///
    /// REGISTERs are no such sign. They let calls out by being accepted: a program that has just been started at the same
    /// address is not the phone that registered until it has done so.
    func noteLife(on flow: Flow, by sign: TimelineRecord.SignOfLife, now: Moment) {
        flows.life?.noted(on: flow, now: now.instant)
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

    /// The binding whose number a device had is gone, and another of its flows is there: what waits for the device, and what
    /// it has missed, goes on under that one's number.
    func handOver(from device: DeviceID, to heir: DeviceID, of aor: AddressOfRecord, now: Moment) {
        ledger.passOn(from: device, to: [heir], of: aor, into: &actions)
        let changes = messages.takenOver(by: heir, of: aor) { $0 == device }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        for call in calls.devices.calls(of: device) {
            calls.devices.remove(call, of: device)
            call.fork.renamed(device, to: heir)
            calls.devices.add(call, to: heir)
            guard call.fork.waitingBranch(of: heir) != nil,
                let target = registrar.bindings.forkTarget(heir, now: now.instant)
            else { continue }
            watch(target)
        }
    }
}
