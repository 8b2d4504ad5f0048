package import Addressing
import Bytes
import LocationService
import ProxyPolicy
package import PushDelivery
import PushPlanning
import Registration
import Telemetry
import Timekeeping

/// Push providers that an operator switches on, pauses and switches off.
extension ProxyEngine {
    /// The providers that have credentials, switched on or off.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    package func state(of provider: PushProvider) -> ProviderState {
        guard registrar.enabledProviders.contains(provider) else { return .off }
        return ledger.isPaused(provider) ? .paused : .on
    }

    /// The provider of a device's token, if that provider is paused.
    package func pausedProvider(of device: DeviceID) -> PushProvider? {
        registrar.bindings.pushToken(of: device).map(\.provider).flatMap { ledger.isPaused($0) ? $0 : nil }
    }

    /// Why some calls fail, or phones are not woken; `nil` if no such reason is known.
    package var trouble: String? {
        let paused = settings.configuredProviders.filter { state(of: $0) == .paused }.map(\.rawValue).sorted()
        let troubles = [upstreamTrouble].compactMap(\.self) + paused.map { "push provider \($0) is paused" }
        return troubles.isEmpty ? nil : troubles.joined(separator: "; ")
    }

    /// Sets the state of a provider (R8c, R9). The caller has persisted the state before.
    func switchProvider(_ provider: PushProvider, to state: ProviderState, now: Moment) {
        let former = self.state(of: provider)
        guard settings.configuredProviders.contains(provider), former != state else { return }
        var ended: [BindingTable.Ended] = []
        if state == .off {
            ended = registrar.switchedOff(provider, now: now.instant)
        } else if former == .off {
            registrar.switchedOn(provider)
        }
        log.notice(
            "push provider switched",
            [.provider: .text(provider.rawValue), .outcome: .text(state.rawValue), .count: .number(ended.count)])
        if state == .paused {
            ledger.pause(provider, now: now, into: &output.actions)
        } else if former == .paused {
            ledger.resume(provider)
            if state == .on { sendOwedLists(now: now) }
        }
        forget(ended, of: provider, now: now)
    }

    /// Removes contacts that ended with their provider. Each leaves a record, which says why the user has no device.
    private func forget(_ ended: [BindingTable.Ended], of provider: PushProvider, now: Moment) {
        guard !ended.isEmpty else { return }
        act(.record(ended.map { .binding(.delete($0.id)) }))
        if ledger.timeline.isOn {
            let records = ended.prefix(min(Self.mostRecords, settings.recordsKept)).map { binding in
                TimelineChange.record(TimelineRecord(contact: binding.id, of: binding.aor, provider, at: now.date))
            }
            act(.trace(records))
        }
        for binding in ended { deviceRemoved(binding.id, of: binding.aor, because: .providerOff, now: now) }
    }

    /// A switch leaves at most so many records, so that the records of calls stay.
    private static let mostRecords = 100_000
}

extension TimelineRecord {
    /// The record of a contact that ended because its provider was switched off.
    fileprivate init(contact: DeviceID, of aor: AddressOfRecord, _ provider: PushProvider, at date: UnixTime) {
        self.init(
            id: .absent, kind: .contact, user: aor.user, host: aor.host, device: contact, callRef: nil, callID: .empty,
            calls: 0, requestedAt: date, omission: nil, app: provider.rawValue)
        delivery = .none
        end = .providerOff
        steps.ended = 0
    }
}
