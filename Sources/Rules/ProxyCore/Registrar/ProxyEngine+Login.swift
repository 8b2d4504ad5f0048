package import Addressing
import Bytes
package import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

/// Checks passwords from digests and from HTTP. Wrong passwords of both are counted together (T8).
extension ProxyEngine {
    /// How long a source must wait before its password is checked.
    ///
    /// - Parameters:
    ///   - source: the address that shows the password; `nil` for a trusted peer, which speaks for many.
    ///   - user: the user whose password is shown; `nil` for a key or another secret that is no user's.
    ///   - now: both clocks.
    /// - Returns: the time to wait; `nil` if the password is checked now.
    package func loginWait(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) -> Duration? {
        guard let wait = access.sources.logins.wait(for: attempt(from: source, for: user), now: now.instant) else {
            return nil
        }
        output.counters.count(.loginLimited)
        return wait
    }

    /// The password, or the key, was wrong.
    package func loginFailed(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) {
        output.counters.count(.loginFailed)
        access.sources.logins.failed(attempt(from: source, for: user), now: now.instant)
    }

    /// The password was right.
    package func loginSucceeded(from source: IPAddress?, for user: AddressOfRecord) {
        access.sources.logins.succeeded(LoginLimit.Attempt(from: source, for: user))
    }

    private func attempt(from source: IPAddress?, for user: AddressOfRecord?) -> LoginLimit.Attempt {
        guard let source, let user else { return LoginLimit.Attempt(from: source, for: user) }
        return LoginLimit.Attempt(from: source, for: user, isAtHome: isHome(source, of: user))
    }

    /// Whether the user has a contact at this address.
    private func isHome(_ source: IPAddress, of user: AddressOfRecord) -> Bool {
        registrar.bindings.device(of: user) { $0.remote.address.source == source.source } != nil
    }

    // MARK: Digests

    /// Checks the digest credentials of a request, within the limits on wrong passwords.
    func checkCredentials(
        of incoming: IncomingRequest, as role: DigestAuthenticator.Role, home: ByteString, owner: ByteString?,
        now: Moment
    ) -> DigestAuthenticator.Verdict {
        let realm = digest.realm(for: home)
        let verdict = digest.check(
            incoming.request, as: role, realm: realm, owner: owner, on: incoming.flow,
            from: holder(incoming), users: registrar.users, now: now.instant
        ) { name in
            digestWait(incoming, AddressOfRecord(user: name, host: home), now: now)
        } find: { name, wish in
            find(name, home: home, realm: realm, for: incoming, wish, now: now)
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
        case .unavailable(let name?):
            loginFailed(from: source, for: AddressOfRecord(user: name, host: home), now: now)
        case .challenge, .limited, .asking, .unavailable(wrong: nil): break
        }
        return verdict
    }

    /// How long a digest must wait before it is checked. A phone on the flow that it registered on never waits: it
    /// has shown its password there, and nobody else can use that flow.
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

    /// Tells the shell that a stream has proved itself, so that the stream is kept. Telling this again costs less
    /// than remembering it.
    func noteProved(_ flow: Flow, by user: AddressOfRecord? = nil) {
        if flow.connection != 0 { act(.flowProved(flow, account: user?.hashValue)) }
    }
}
