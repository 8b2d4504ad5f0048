import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import Telemetry
import Timekeeping
import Waking

/// Makes the nonces that pushes carry, so that a woken phone can register without a challenge (T39).
extension ProxyEngine {
    /// A nonce for a push that wakes a user's phone; `nil` if the daemon asks for no passwords, or the settings switch
    /// nonces in pushes off.
    func nonceForPush(to user: AddressOfRecord, now: Moment) -> ByteString? {
        guard settings.authenticates, settings.digest.reusesNonces else { return nil }
        return access.digest.nonce(pushedTo: user, now: now.instant)
    }

    /// Removes a nonce from all bindings of a user, in memory and in the store.
    func endNonce(_ name: UInt64, of user: AddressOfRecord, now: Moment) {
        let changes = registrar.bindings.forget(nonce: name, of: user, now: now)
        if !changes.isEmpty { act(.record(changes.map { .binding($0) })) }
    }

    /// Counts a REGISTER of a phone for which calls wait, by the origin of its nonce: a challenge, a push or the
    /// binding.
    func countWake(of binding: DeviceID, by incoming: IncomingRequest) {
        guard let nonce = incoming.nonce, !wakes.isEmpty else { return }
        let device = registrar.bindings.device(of: binding)
        guard wakes.calls(of: device).contains(where: { $0.fork.waitingBranch(of: device) != nil }) else { return }
        switch nonce.origin {
        case .challenge: output.counters.count(.wakeChallenged)
        case .push: output.counters.count(.wakePushedNonce)
        case .binding: output.counters.count(.wakeKeptNonce)
        }
    }
}
