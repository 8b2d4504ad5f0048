package import Addressing
import Bytes
package import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

/// Passwords, whether they come as digests or over HTTP: their wrong ones are counted together (T8).
extension ProxyEngine {
    /// How long somebody has to wait until a password that he shows is looked at.
    ///
    /// - Parameters:
    ///   - source: who shows it; `nil` for a trusted peer, which speaks for many.
    ///   - user: whose password it would be; `nil` for a key or another secret that is no user's.
    ///   - now: the present.
    /// - Returns: `nil` when it is looked at now.
    package func loginWait(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) -> Duration? {
        guard let wait = sources.logins.wait(for: attempt(from: source, for: user), now: now.instant) else {
            return nil
        }
        counters.count(.loginLimited)
        return wait
    }

    /// The password, or the key, was wrong.
    package func loginFailed(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) {
        counters.count(.loginFailed)
        sources.logins.failed(attempt(from: source, for: user), now: now.instant)
    }

    /// The password was right.
    package func loginSucceeded(from source: IPAddress?, for user: AddressOfRecord) {
        sources.logins.succeeded(LoginLimit.Attempt(from: source, for: user))
    }

    private func attempt(from source: IPAddress?, for user: AddressOfRecord?) -> LoginLimit.Attempt {
        guard let source, let user else { return LoginLimit.Attempt(from: source, for: user) }
        return LoginLimit.Attempt(from: source, for: user, isAtHome: isHome(source, of: user))
    }

    /// Whether the user has a contact at that address.
    private func isHome(_ source: IPAddress, of user: AddressOfRecord) -> Bool {
        registrar.bindings.device(of: user) { $0.remote.address.source == source.source } != nil
    }

    // MARK: Digests

    /// Judges the digest credentials of a request, within the limits.
    func checkCredentials(
        of incoming: IncomingRequest, as role: DigestAuthenticator.Role, home: ByteString, owner: ByteString?,
        now: Moment
    ) -> DigestAuthenticator.Verdict {
        let verdict = digest.check(
            incoming.request, as: role, realm: digest.realm(for: home), owner: owner, on: incoming.flow,
            from: holder(incoming), users: registrar.users, now: now.instant
        ) { name in
            digestWait(incoming, AddressOfRecord(user: name, host: home), now: now)
        }
        count(verdict)
        let source = incoming.isTrusted ? nil : incoming.flow.remote.address
        switch verdict {
        case .challenge(.wrong(let name)):
            loginFailed(from: source, for: AddressOfRecord(user: name, host: home), now: now)
        case .authenticated(let user), .forbidden(let user):
            let user = AddressOfRecord(user: user.name, host: home)
            noteProved(incoming.flow, by: user)
            loginSucceeded(from: source, for: user)
        case .challenge, .limited: break
        }
        return verdict
    }

    /// A phone on the very flow that it registered on has shown its password there: nobody else can use that flow.
    private func digestWait(_ incoming: IncomingRequest, _ user: AddressOfRecord, now: Moment) -> Duration? {
        let source = incoming.isTrusted ? nil : incoming.flow.remote.address
        guard let wait = loginWait(from: source, for: user, now: now) else { return nil }
        let isOwnFlow = registrar.bindings.device(of: user) { $0 == incoming.flow } != nil
        return isOwnFlow && !incoming.isTrusted ? nil : wait
    }

    func challenge(
        _ incoming: IncomingRequest, _ reason: DigestAuthenticator.Reason, as role: DigestAuthenticator.Role,
        home: ByteString, now: Moment
    ) {
        let fields = digest.challenge(
            realm: digest.realm(for: home), stale: reason == .stale, as: role, of: incoming.request,
            for: holder(incoming), users: registrar.users, now: now.instant)
        refuse(incoming, role == .registrar ? .unauthorized : .proxyAuthenticationRequired, fields: fields, now: now)
    }

    private func holder(_ incoming: IncomingRequest) -> NonceHolder {
        incoming.isTrusted ? .trusted : .source(incoming.flow.remote.address)
    }

    /// The shell keeps streams that prove themselves. It may hear so again, which costs less than remembering.
    func noteProved(_ flow: Flow, by user: AddressOfRecord? = nil) {
        if flow.connection != 0 { act(.flowProved(flow, account: user?.hashValue)) }
    }
}
