import AccessLimits
import LocationService
import ProxyPolicy
import Registration
import Timekeeping
import UpstreamRegistration

/// Finds the passwords of users whom the daemon registers at a PBX: in the store, or in the sources of users outside
/// the store.
extension ProxyEngine {
    enum PasswordFinding {
        case known(DigestUser)
        /// Neither the store nor a source has a password of the user.
        case unknown
        /// A source is asked, and ``passwordSettled(of:now:)`` sends the REGISTER after the answer.
        case asking
        /// No source can say now which password the user has.
        case away
        /// The agent has as many open questions as it may have.
        case busy
    }

    /// The digest algorithms and the fingerprint of a user's password, as far as they are known without a question to a
    /// source.
    ///
    /// At the start, sources may have the passwords of many users. Therefore a source is asked only when the PBX asks
    /// for the password of this user.
    func passwordFacts(of aor: AddressOfRecord, now: Moment) -> (algorithms: DigestAlgorithms, fingerprint: UInt32?) {
        let realm = access.digest.realm(for: aor.host)
        let password =
            registrar.users.user(named: aor.user, realm: realm.account)
            ?? access.users.cache.remembered(aor, realm: realm.text, now: now.instant)
        if let password { return (DigestAlgorithms(of: password), password.fingerprint) }
        guard access.users.cache.mayExist(aor) else { return ([], 0) }
        let algorithms = (access.users.cache.rules.algorithms ?? []).intersection(settings.digest.algorithms)
            .reduce(DigestAlgorithms()) { $0.union(DigestAlgorithms(of: $1)) }
        return (algorithms, nil)
    }

    /// Finds the password that answers the PBX's challenge, and asks the sources of users if necessary.
    func password(for order: RegisterOrder, hasAsked: Bool, now: Moment) -> PasswordFinding {
        guard let aor = upstreamUsers.aor(of: order.user) else { return .unknown }
        let realm = access.digest.realm(for: aor.host)
        if let stored = registrar.users.user(named: aor.user, realm: realm.account) ?? upstreamUsers.removed[order.user]
        {
            return .known(stored)
        }
        guard hasAsked || access.users.cache.hasRoomForAgent else { return .busy }
        let found = access.users.cache.find(
            aor, realm: realm.text, for: .agent, hasAsked ? .last : .any, now: now.instant)
        switch found {
        case .known(let password, _):
            upstreamUsers.agent.passwordFound(
                order.user, DigestAlgorithms(of: password), fingerprint: password.fingerprint)
            return .known(password)
        case .unknown: return .unknown
        case .away: return .away
        case .asking:
            upstreamUsers.asked[aor] = .send(order)
            askSources(now: now)
            return .asking
        }
    }

    /// Asks the sources again for a password that the PBX has refused, because the remembered password may be minutes
    /// old. Another password is tried, and the same password is not (T38.2).
    func recheckPassword(of user: UpstreamUser, now: Moment) {
        guard let aor = upstreamUsers.aor(of: user), upstreamUsers.asked[aor] == nil else { return }
        let realm = access.digest.realm(for: aor.host)
        guard registrar.users.user(named: aor.user, realm: realm.account) == nil,
            access.users.cache.find(aor, realm: realm.text, for: .agent, .newer, now: now.instant) == .asking
        else { return }
        upstreamUsers.asked[aor] = .compare
        askSources(now: now)
    }

    /// Drops the REGISTER with this number, which waits for the user's password, because the agent no longer wants to
    /// send the REGISTER.
    func noLongerAsked(_ number: RegisterNumber) {
        guard !upstreamUsers.asked.isEmpty else { return }
        let place = upstreamUsers.asked.firstIndex {
            if case .send(let order) = $0.value { order.number == number } else { false }
        }
        if let place { upstreamUsers.asked.remove(at: place) }
    }
}

extension DigestUser {
    /// A number that changes when the HA1 changes: a hash with a random seed, so that nobody can compute the HA1 from
    /// it.
    fileprivate var fingerprint: UInt32 { UInt32(truncatingIfNeeded: ha1.hashValue) }
}
