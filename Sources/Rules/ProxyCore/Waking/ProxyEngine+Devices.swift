import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// Devices that return, show life, or are removed. Each release of ``WakeDesk`` is carried out here.
extension ProxyEngine {
    /// A device has registered, and `binding` is its new or refreshed binding. `isPush` says whether that is a push
    /// contact; `nil` lets the method look it up.
    func bindingReturned(_ binding: DeviceID, of aor: AddressOfRecord, isPush: Bool?, now: Moment) {
        let device = registrar.bindings.device(of: binding)
        for release in wakes.returned(device) { carryOut(release, for: device, of: aor, through: binding, now: now) }
        // This contact may belong to a device that was reported over HTTP with its token. No data links the two, so the
        // user's reported devices are released through this contact.
        if !(isPush ?? registrar.bindings.isPush(device)) { contactReturned(device, of: aor, now: now) }
    }

    /// A sign of life on a device's flow releases the calls that wait for the device. An awake phone that gets a push
    /// may have no reason to register again.
    ///
    /// A REGISTER is no sign of life; only its acceptance releases calls. A program that was just started at the same
    /// address is not proved to be the phone until it has registered.
    func noteLife(on flow: Flow, by sign: TimelineRecord.SignOfLife, now: Moment) {
        flows.activity?.noted(on: flow, now: now.instant)
        showedLife(on: flow, now: now)
        guard !wakes.watchesNothing else { return }
        for device in wakes.watched(on: flow) {
            for call in wakes.calls(of: device) {
                guard let branch = call.fork.waitingBranch(of: device) else { continue }
                ledger.showedLife(call.fork.branches[branch], by: sign)
            }
            for release in wakes.showedLife(device) {
                carryOut(release, for: device, of: nil, through: nil, now: now)
            }
        }
    }

    /// - Parameters:
    ///   - release: the thing that may go on.
    ///   - device: the device that is there.
    ///   - aor: the device's user; `nil` to look it up.
    ///   - binding: the flow by which the device has registered; `nil` for a sign of life.
    ///   - now: both clocks.
    private func carryOut(
        _ release: WakeDesk.Release, for device: DeviceID, of aor: AddressOfRecord?, through binding: DeviceID?,
        now: Moment
    ) {
        switch release {
        case .caller(let call): callerReturned(call, as: device, now: now)
        case .endedCalls(let ended): sayFarewells(of: ended, to: device, now: now)
        case .call(let call): deviceReturned(device, for: call, through: binding, now: now)
        case .messages:
            guard !messages.isEmpty, let aor = aor ?? registrar.bindings.binding(device)?.aor else { return }
            messagesReturn(to: device, of: aor, now: now)
        case .missedCalls:
            guard !wakes.listWaits(for: device), let aor else { return }
            reportMissedCalls(to: device, of: aor, now: now)
        }
    }

    /// A device was removed from its AOR, for example because it unregistered or its token is dead.
    func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        if let heir = registrar.bindings.takeHeir(of: device) { handOver(from: device, to: heir, of: aor, now: now) }
        ledger.deviceRemoved(device, of: aor, into: &actions)
        if !messages.isEmpty { messagesLose(device, of: aor, now: now) }
        counters.count(.bindingRemoved)
        for call in wakes.removed(device) {
            guard let branch = call.fork.waitingBranch(of: device) else { continue }
            counters.count(.heldDeviceGone)
            ledger.drop(branch, of: call, now: now, into: &actions)
            ledger.ended(branch, of: call, cause, now: now, into: &actions)
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
        }
    }

    /// The binding that gave a device its number was removed, and another binding of the device remains. Everything
    /// that waits for the device, and its missed calls, moves to the number of that binding.
    func handOver(from device: DeviceID, to heir: DeviceID, of aor: AddressOfRecord, now: Moment) {
        ledger.passOn(from: device, to: [heir], of: aor, into: &actions)
        let changes = messages.takenOver(by: heir, of: aor) { $0 == device }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        let calls = wakes.renamed(device, to: heir)
        for call in calls { call.fork.renamed(device, to: heir) }
        guard wakes.isAsleep(heir) || calls.contains(where: { $0.fork.waitingBranch(of: heir) != nil }),
            let target = registrar.bindings.forkTarget(heir, now: now.instant)
        else { return }
        watch(target)
    }
}
