package import PushDelivery
package import Registration
package import SIPGrammar
import Telemetry
package import Timekeeping

/// What operators ask and order while the daemon runs.
extension ProxyEngine {
    /// One INVITE that is being offered to a user.
    package struct HeldCall: Sendable {
        package let callRef: CallRef
        package let aor: AddressOfRecord
        package let callID: ByteString
        package let receivedAt: UnixTime
        /// Devices that are waited for, and devices that ring.
        package let sleeping, ringing: Int
    }

    /// All calls that wait or ring, oldest first.
    package var heldCalls: [HeldCall] {
        forks.values.compactMap { context -> HeldCall? in
            guard let call = context.call, context.fork.phase == .proceeding else { return nil }
            let branches = context.fork.branches
            return HeldCall(
                callRef: call.ref, aor: call.aor, callID: call.key.callID, receivedAt: call.receivedAt,
                sleeping: branches.count(where: \.isSleeping),
                ringing: branches.count { !$0.isSleeping && !$0.isEnded })
        }.sorted { ($0.receivedAt, $0.callRef.rawValue) < ($1.receivedAt, $1.callRef.rawValue) }
    }

    /// The devices of a user as a call would find them.
    package func targets(of aor: AddressOfRecord, now: Moment) -> [ForkTarget] {
        bindings.forkTargets(for: aor, now: now.instant)
    }

    /// Providers that have credentials, switched on or not.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    /// Switches a provider off or on (R8c, R9); the choice is kept over restarts.
    package func providerSwitched(_ provider: PushProvider, on isOn: Bool, now: Moment) {
        guard settings.configuredProviders.contains(provider), enabledProviders.contains(provider) != isOn else {
            return
        }
        act(.record([.providerSwitch(provider, enabled: isOn)]))
        log.notice(
            "push provider switched", [.provider: .text(provider.rawValue), .outcome: .text(isOn ? "on" : "off")])
        if isOn {
            enabledProviders.insert(provider)
            bindings.providerEnabled(provider)
            return
        }
        enabledProviders.remove(provider)
        let ended = bindings.providerDisabled(provider, now: now.instant)
        if !ended.isEmpty { act(.record(ended.map { .binding(.delete($0.id)) })) }
        for binding in ended { deviceRemoved(binding.id, of: binding.aor, because: .providerOff, now: now) }
        settle(now: now)
    }

    /// Users are written by whoever calls this, before the call.
    package func userAdded(_ user: DigestUser) { users.add(user) }

    package func userRemoved(name: ByteString, realm: ByteString) { users.remove(name: name, realm: realm) }

    /// Takes the settings that may change while running; the caller checked that the others are the same.
    package func settingsChanged(_ changed: ProxySettings) {
        settings = changed
        deviceLimit.perMinute = changed.pushesPerDevice
        callerLimit.perMinute = changed.pushesPerCaller
        notificationLimit.perMinute = changed.notificationsPerDevice
    }
}
