package import Addressing
import Bytes
import LocationService
import ProxyPolicy
package import PushDelivery
import PushPlanning
import Registration
import ServiceEvents
import Telemetry
import Timekeeping

/// Executes an operator's command to switch a push provider on or off, or to pause it.
extension ProxyEngine {
    /// The push providers that have credentials in the settings.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    package func state(of provider: PushProvider) -> ProviderState {
        guard registrar.enabledProviders.contains(provider) else { return .off }
        return ledger.isPaused(provider) ? .paused : .on
    }

    /// The push provider of a device, if the provider is paused; otherwise `nil`.
    package func pausedProvider(of device: DeviceID) -> PushProvider? {
        registrar.bindings.pushToken(of: device).map(\.provider).flatMap { ledger.isPaused($0) ? $0 : nil }
    }

    /// A description of a problem that makes calls fail or keeps phones asleep; `nil` if the daemon knows no problem.
    package var trouble: String? {
        let paused = settings.configuredProviders.filter { state(of: $0) == .paused }.map(\.rawValue).sorted()
        let troubles = [upstreamTrouble].compactMap(\.self) + paused.map { "push provider \($0) is paused" }
        return troubles.isEmpty ? nil : troubles.joined(separator: "; ")
    }

    /// Switches a push provider on or off, or pauses it (R8c, R9); the new state is already in the store.
    ///
    /// - Returns: whether the provider accepts pushes again after a pause.
    func switchProvider(_ provider: PushProvider, to state: ProviderState, now: Moment) -> Bool {
        let former = self.state(of: provider)
        guard settings.configuredProviders.contains(provider), former != state else { return false }
        var ended: [BindingTable.Ended] = []
        if state == .off {
            ended = registrar.switchedOff(provider, now: now.instant)
        } else if former == .off {
            registrar.switchedOn(provider)
        }
        log.notice(
            "an operator changed the state of a push provider",
            [.provider: .text(provider.rawValue), .outcome: .text(state.rawValue), .count: .number(ended.count)])
        if state == .paused {
            ledger.pause(provider, now: now, into: &output.actions)
        } else if former == .paused {
            ledger.resume(provider)
        }
        forget(ended, of: provider, now: now)
        return former == .paused && state == .on
    }

    /// Removes the contacts of a switched-off push provider, and writes a timeline record about each removed contact.
    private func forget(_ ended: [BindingTable.Ended], of provider: PushProvider, now: Moment) {
        guard !ended.isEmpty else { return }
        act(.record(ended.map { .binding(.delete($0.id)) }))
        for binding in ended { registrar.changeOrdered(of: binding.aor) }
        if ledger.timeline.isOn {
            let records = ended.prefix(min(Self.mostRecords, settings.recordsKept)).map { binding in
                TimelineChange.record(TimelineRecord(contact: binding.id, of: binding.aor, provider, at: now.date))
            }
            act(.trace(records))
        }
        for binding in ended {
            deviceRemoved(
                binding.id, of: binding.aor, binding.isFurtherFlow ? nil : .providerOff, because: .providerOff,
                now: now)
        }
    }

    /// The maximum number of timeline records about one switched-off push provider; more records would displace records
    /// of calls.
    private static let mostRecords = 100_000
}

extension TimelineRecord {
    /// The timeline record of a contact that was removed because its push provider was switched off.
    fileprivate init(contact: DeviceID, of aor: AddressOfRecord, _ provider: PushProvider, at date: UnixTime) {
        self.init(
            id: .absent, kind: .contact, user: aor.user, host: aor.host, device: contact, callRef: nil, callID: .empty,
            calls: 0, requestedAt: date, omission: nil, app: provider.rawValue)
        delivery = .none
        end = .providerOff
        steps.ended = 0
    }
}
