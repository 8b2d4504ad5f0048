import Addressing
package import Calling
import LocationService
package import Registration
package import Timekeeping

/// Applies the call rules of users that operators have set, after the store has the rules.
extension ProxyEngine {
    package func rulesSet(_ row: StoredUserRules) { calls.rules.set(row.rules, of: row.aor, zone: functions.zone) }

    package func rulesRemoved(of aor: AddressOfRecord) { _ = calls.rules.remove(aor) }

    package func rules(of aor: AddressOfRecord) -> CallRules? { calls.rules[aor] }

    /// When the user's do-not-disturb ends; `nil` if the user's devices ring now.
    package func silence(of aor: AddressOfRecord, now: Moment) -> DoNotDisturb.End? {
        calls.rules.silence(of: aor, at: now.date)
    }

    /// Whether the machine knows the time zone with the given name.
    package func knowsZone(_ name: String) -> Bool { functions.zone(name) != nil }

    /// The user's devices, with the properties that the user's rules use.
    package func ruledDevices(of aor: AddressOfRecord, now: Moment) -> [RuledDevice] {
        registrar.bindings.forkTargets(for: aor, now: now.instant).map(ruled)
    }
}
