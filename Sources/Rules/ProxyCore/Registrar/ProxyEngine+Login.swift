import AccessLimits
package import Addressing
import Bytes
import LocationService
import ProxyPolicy
package import Registration
import Routing
import SIPGrammar
import Telemetry
package import Timekeeping

/// Checks passwords in SIP digests and in HTTP requests, and limits wrong passwords of both kinds together (T8).
extension ProxyEngine {
    /// How long the next password from this source or for this user must wait for its check; `nil` if it can be checked
    /// now.
    ///
    /// The parameter `source` is `nil` for a trusted peer, which sends for many users. The parameter `user` is `nil`
    /// for a key or another secret that belongs to no user.
    package func loginWait(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) -> Duration? {
        loginWait(attempt(from: source, for: user), access.sources.logins, now: now)
    }

    private func loginWait(_ attempt: LoginLimit.Attempt, _ logins: LoginLimit, now: Moment) -> Duration? {
        guard let wait = logins.wait(for: attempt, now: now.instant) else { return nil }
        output.counters.count(.loginLimited)
        return wait
    }

    /// Counts a wrong password or key from this source against the source and the user.
    package func loginFailed(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) {
        output.counters.count(.loginFailed)
        access.sources.logins.failed(attempt(from: source, for: user), now: now.instant)
    }

    /// Notes that this source has shown the right password of this user.
    package func loginSucceeded(from source: IPAddress?, for user: AddressOfRecord) {
        access.sources.logins.succeeded(LoginLimit.Attempt(from: source, for: user))
    }

    private func attempt(from source: IPAddress?, for user: AddressOfRecord?) -> LoginLimit.Attempt {
        guard let source, let user else { return LoginLimit.Attempt(from: source, for: user) }
        return LoginLimit.Attempt(from: source, for: user, isAtHome: isHome(source, of: user))
    }

    /// Whether a phone of the user is registered from this source address.
    private func isHome(_ source: IPAddress, of user: AddressOfRecord) -> Bool {
        registrar.bindings.device(of: user) { $0.remote.address.source == source.source } != nil
    }

    // MARK: Digests and tokens

    /// Checks the bearer token or the digest credentials of a request, unless too many wrong passwords came before.
    func checkCredentials(
        of incoming: IncomingRequest, as role: DigestAuthenticator.Role, home: ByteString, owner: ByteString?,
        now: Moment
    ) -> DigestAuthenticator.Verdict {
        let reuser = role == .registrar && settings.digest.reusesNonces ? owner : nil
        let user = reuser.map { AddressOfRecord(user: $0, host: home) }
        let verdict =
            checkToken(of: incoming, as: role, home: home, owner: owner, now: now)
            ?? access.check(
                incoming, as: role, home: home, owner: owner, from: holder(incoming), users: registrar.users,
                now: now.instant,
                wait: { name, logins in
                    loginWait(on: incoming, AddressOfRecord(user: name, host: home), logins, now: now)
                },
                pushed: { user.flatMap { mayUsePushedNonce(incoming, of: $0) ? $0 : nil } },
                isKept: { nonce, count in
                    guard let user else { return false }
                    return registrar.bindings.keeps(
                        nonce: nonce, below: count, of: user, on: incoming.flow, isTrusted: incoming.isTrusted)
                })
        count(verdict)
        let source = incoming.isTrusted ? nil : incoming.flow.remote.address
        switch verdict {
        case .challenge(.wrong(let name)):
            loginFailed(from: source, for: AddressOfRecord(user: name, host: home), now: now)
        case .challenge(.wrongForBinding(let name, let nonce)):
            // The binding forgets the nonce, so that an attacker who has overheard the nonce has only one guess.
            if let user { endNonce(nonce, of: user, now: now) }
            loginFailed(from: source, for: AddressOfRecord(user: name, host: home), now: now)
        case .authenticated(let user, _), .forbidden(let user):
            let user = AddressOfRecord(user: user.name, host: home)
            noteProved(incoming.flow, by: user)
            loginSucceeded(from: source, for: user)
        case .unavailable(let name?):
            loginFailed(from: source, for: AddressOfRecord(user: name, host: home), now: now)
        case .challenge, .limited, .asking, .unavailable(wrong: nil), .awaitingKeys: break
        }
        return verdict
    }

    /// Whether the sender is allowed to use a nonce from a push to its user. The source address of a datagram can be
    /// forged, so a sender over UDP must have an address from which the user has registered.
    private func mayUsePushedNonce(_ incoming: IncomingRequest, of user: AddressOfRecord) -> Bool {
        incoming.isTrusted || incoming.flow.isFromProvedAddress || isHome(incoming.flow.remote.address, of: user)
    }

    /// How long the digest or bearer token of this request must wait for its check; `nil` if it can be checked now.
    ///
    /// A phone never waits on the flow of its own registration, because it has shown its password there and nobody else
    /// can use the flow.
    func loginWait(
        on incoming: IncomingRequest, _ user: AddressOfRecord, _ logins: LoginLimit, now: Moment
    ) -> Duration? {
        let source = incoming.isTrusted ? nil : incoming.flow.remote.address
        guard let wait = loginWait(attempt(from: source, for: user), logins, now: now) else { return nil }
        let isOwnFlow = registrar.bindings.device(of: user) { $0 == incoming.flow } != nil
        return isOwnFlow && !incoming.isTrusted ? nil : wait
    }

    func challenge(
        _ incoming: IncomingRequest, _ reason: DigestAuthenticator.Reason, as role: DigestAuthenticator.Role,
        home: ByteString, now: Moment
    ) {
        let realm = access.digest.realm(for: home)
        let digests = access.digest.challenge(
            realm: realm, stale: reason.isStale, as: role, of: incoming.request, for: holder(incoming),
            users: registrar.users, now: now.instant)
        let fields = tokenChallenge(incoming, reason, as: role, home: home, realm: realm.text) + digests
        refuse(incoming, role == .registrar ? .unauthorized : .proxyAuthenticationRequired, fields: fields, now: now)
    }

    private func holder(_ incoming: IncomingRequest) -> NonceHolder {
        incoming.isTrusted ? .trusted : .source(incoming.flow.remote.address)
    }

    /// Tells the shell to keep a connection open, because its peer is authenticated. A connection can be reported
    /// several times, because this costs less than remembering the earlier reports.
    func noteProved(_ flow: Flow, by user: AddressOfRecord? = nil) {
        if flow.connection != 0 { act(.flowProved(flow, account: user?.hashValue)) }
    }
}
