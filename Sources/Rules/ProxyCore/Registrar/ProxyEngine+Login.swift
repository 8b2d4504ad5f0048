package import AccessLimits
package import Addressing
package import Bytes
import LocationService
import ProxyPolicy
package import Registration
import Routing
import SIPGrammar
import Telemetry
package import Timekeeping

/// Checks passwords in SIP requests and in HTTP requests. SIP and HTTP share one limit on wrong passwords (T8).
extension ProxyEngine {
    /// How long the check of the next password from a source or for a user must wait; `nil` if the check is immediate.
    ///
    /// The parameter `source` is `nil` for a trusted peer, because a trusted peer sends requests of many users. The
    /// parameter `user` is `nil` for a key or secret that belongs to no user.
    package func loginWait(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) -> Duration? {
        loginWait(attempt(from: source, for: user), access.sources.logins, now: now)
    }

    private func loginWait(_ attempt: LoginLimit.Attempt, _ logins: LoginLimit, now: Moment) -> Duration? {
        guard let wait = logins.wait(for: attempt, now: now.instant) else { return nil }
        output.counters.count(.loginLimited)
        return wait
    }

    /// Counts a wrong password or key against its source address and against the user.
    package func loginFailed(from source: IPAddress?, for user: AddressOfRecord?, now: Moment) {
        output.counters.count(.loginFailed)
        access.sources.failed(attempt(from: source, for: user), now: now.instant)
    }

    /// Notes that a source address has shown a user's right password.
    package func loginSucceeded(from source: IPAddress?, for user: AddressOfRecord) {
        access.sources.logins.succeeded(LoginLimit.Attempt(from: source, for: user))
    }

    private func attempt(from source: IPAddress?, for user: AddressOfRecord?) -> LoginLimit.Attempt {
        guard let source, let user else { return LoginLimit.Attempt(from: source, for: user) }
        return LoginLimit.Attempt(from: source, for: user, isAtHome: isHome(source, of: user))
    }

    /// Whether a phone of the user is registered from the source address.
    private func isHome(_ source: IPAddress, of user: AddressOfRecord) -> Bool {
        registrar.bindings.device(of: user) { $0.remote.address.source == source.source } != nil
    }

    // MARK: Digests and tokens

    /// Checks a request's bearer token or digest credentials, unless the limit on wrong passwords is reached.
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
            // After a wrong password, the nonce is no longer valid, so that an attacker who has overheard the nonce has
            // only one guess.
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

    /// Removes a nonce from all bindings of a user, in memory and in the store.
    func endNonce(_ name: UInt64, of user: AddressOfRecord, now: Moment) {
        let changes = registrar.bindings.forget(nonce: name, of: user, now: now)
        guard !changes.isEmpty else { return }
        registrar.changeOrdered(of: user)
        act(.record(changes.map { .binding($0) }))
    }

    /// Whether a request may use a nonce that the daemon sent in a push to the user. Over UDP, the daemon accepts a
    /// nonce from a push only from an address at which the user is registered, because source addresses can be forged.
    private func mayUsePushedNonce(_ incoming: IncomingRequest, of user: AddressOfRecord) -> Bool {
        incoming.isTrusted || incoming.flow.isFromProvedAddress || isHome(incoming.flow.remote.address, of: user)
    }

    /// How long the check of a request's digest or bearer token must wait; `nil` if the check is immediate.
    ///
    /// The check of a password on the flow of a phone's own registration never waits, because nobody else can use this
    /// flow.
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

    /// Tells the shell to keep a connection open, because the peer is authenticated.
    func noteProved(_ flow: Flow, by user: AddressOfRecord? = nil) {
        if flow.connection != 0 { act(.flowProved(flow, account: user?.hashValue)) }
    }
}

/// Checks the bearer tokens of phones (RFC 8898), and keeps the keys for this check up to date (T40).
extension ProxyEngine {
    /// Whether the settings accept bearer tokens of phones.
    var takesTokens: Bool { !settings.bearer.issuers.isEmpty }

    /// Checks the bearer token of a request.
    ///
    /// - Returns: the verdict; `nil` if the request has no bearer token, or the domain accepts no bearer tokens.
    func checkToken(
        of incoming: IncomingRequest, as role: DigestAuthenticator.Role, home: ByteString, owner: ByteString?,
        now: Moment
    ) -> DigestAuthenticator.Verdict? {
        guard takesTokens else { return nil }
        let name = role == .registrar ? HeaderName.authorization : .proxyAuthorization
        var tokens: [ByteString] = []
        incoming.request.frame.forEachValue(of: name) { value in
            if let token = value.bearerToken { tokens.append(token) }
        }
        guard let token = tokens.first, access.bearer.issuer(for: home) != nil else { return nil }
        guard incoming.flow.transport.isSecure else {
            // On a flow without TLS, a bearer token is ignored if the request also has digest credentials.
            let hasDigest =
                !(role == .registrar ? incoming.request.authorization : incoming.request.proxyAuthorization).isEmpty
            return hasDigest ? nil : refused(.challenge(.tokenInClear))
        }
        guard tokens.count == 1 else { return refused(.challenge(.badToken(.repeated))) }
        let logins = access.sources.logins
        let verdict = access.bearer.judge(token, in: home, from: incoming.flow.remote.address, now: now) { user in
            loginWait(on: incoming, AddressOfRecord(user: user, host: home), logins, now: now)
        }
        readKeys(now: now)
        switch verdict {
        case .proved(let name):
            output.counters.count(.tokenAccepted)
            let user = DigestUser(name: name, realm: access.digest.realm(for: home).account, ha1: [:])
            return owner == nil || owner == name ? .authenticated(user, nil) : .forbidden(user)
        case .bad(let fault, let guessed):
            if let guessed {
                let source = incoming.isTrusted ? nil : incoming.flow.remote.address
                loginFailed(from: source, for: AddressOfRecord(user: guessed, host: home), now: now)
            }
            return refused(.challenge(.badToken(fault)))
        case .limited(let wait): return refused(.limited(wait))
        case .awaitingKeys: return .awaitingKeys
        }
    }

    private func refused(_ verdict: DigestAuthenticator.Verdict) -> DigestAuthenticator.Verdict {
        output.counters.count(.tokenRefused)
        return verdict
    }

    /// The Bearer challenge, which precedes the Digest challenges, because phones answer the first challenge that they
    /// support.
    ///
    /// The daemon asks for a bearer token only over TLS. The clients in the setting `digest.old-clients` get no Bearer
    /// challenge, because they fail at an unknown scheme.
    func tokenChallenge(
        _ incoming: IncomingRequest, _ reason: DigestAuthenticator.Reason, as role: DigestAuthenticator.Role,
        home: ByteString, realm: ByteString
    ) -> [AddedField] {
        guard takesTokens, incoming.flow.transport.isSecure else { return [] }
        var fault: BearerFault?
        if case .badToken(let found) = reason { fault = found }
        guard fault != nil || !access.digest.isOld(incoming.request.frame.firstValue(of: .userAgent)),
            let value = access.bearer.challenge(for: home, realm: realm, after: fault)
        else { return [] }
        return [AddedField(role == .registrar ? "WWW-Authenticate" : "Proxy-Authenticate", value)]
    }

    // MARK: Keys

    /// Orders the shell to read the issuers' keys that are due, logs the results of reading, and sets the timer for the
    /// next reading.
    func readKeys(now: Moment) {
        guard takesTokens else { return }
        for issuer in access.bearer.takeQuestions(now: now.instant) { act(.readKeys(issuer: issuer)) }
        for event in access.bearer.takeEvents() { tell(event, now: now) }
        if let due = access.bearer.nextDue, due != output.keysTimer {
            output.keysTimer = due
            _ = output.timers.schedule(.keysDue, at: due)
        }
    }

    func keysArrived(_ keys: Result<[BearerKey], UserFault>, of issuer: Int, now: Moment) {
        switch keys {
        case .success(let keys): access.bearer.received(keys, of: issuer, now: now.instant)
        case .failure(let fault): access.bearer.failed(fault, of: issuer, now: now.instant)
        }
        readKeys(now: now)
    }

    private func tell(_ event: BearerAuthenticator.KeyEvent, now: Moment) {
        let names = access.bearer.rules.issuers.map { "bearer.issuers.\($0.name)" }
        guard let suppressed = access.keyLines.admit(now: now.instant) else { return }
        switch event {
        case .away(let issuer, let fault, hasKeys: true):
            log.error(
                "the daemon could not refresh the keys for bearer tokens, so it keeps the keys that it read last",
                [
                    .setting: .text(names[issuer]), .reason: .text(fault.sentence), .advice: .text(fault.cure),
                    .suppressed: .number(suppressed),
                ])
        case .away(let issuer, let fault, hasKeys: false):
            log.error(
                "the keys for bearer tokens cannot be read, so phones that register with a bearer token get 503",
                [
                    .setting: .text(names[issuer]), .reason: .text(fault.sentence), .advice: .text(fault.cure),
                    .suppressed: .number(suppressed),
                ])
        case .back(let issuer):
            log.notice(
                "the keys for bearer tokens can be read again",
                [.setting: .text(names[issuer]), .suppressed: .number(suppressed)])
        case .changed(let issuer, let count):
            log.notice(
                "the daemon has read new keys for bearer tokens",
                [.setting: .text(names[issuer]), .count: .number(count), .suppressed: .number(suppressed)])
        }
    }
}

/// Lets requests wait for the answer of a source of users outside the store.
extension ProxyEngine {
    /// Lets a request wait until the sources of users have answered about the request's user.
    ///
    /// - Returns: false if the table of waiting requests is full, so that the caller must refuse the request.
    func waits(_ incoming: IncomingRequest, for user: AddressOfRecord, now: Moment) -> Bool {
        let admission = access.users.hold(incoming, for: user)
        askSources(now: now)
        return admission != .noRoom
    }

    /// Orders the shell to query the sources of users (databases or HTTP servers), and logs failures and recoveries of
    /// the sources.
    func askSources(now: Moment) {
        for question in access.users.cache.takeOrders() { act(.askUser(question)) }
        for event in access.users.cache.takeEvents() { tell(event, now: now) }
        if let due = access.users.nextTimer() { _ = output.timers.schedule(.usersDue, at: due) }
    }

    /// Ends the waiting requests of a closed connection with 503.
    func waitingEnded(on flow: Flow, now: Moment) {
        for incoming in access.users.flowEnded(flow) where incoming.server != nil {
            refuse(incoming, .serviceUnavailable, now: now)
        }
    }

    private func tell(_ event: UserCache.SourceEvent, now: Moment) {
        let names = access.users.cache.rules.sources.map(\.name)
        switch event {
        case .away(let source, let fault):
            guard let suppressed = access.users.sourceLines.admit(now: now.instant) else { return }
            log.error(
                "a source of users does not answer, so users whose passwords the daemon has not cached get 503",
                [
                    .setting: .text("users.sources.\(names[source])"), .reason: .text(fault.sentence),
                    .advice: .text(fault.cure), .suppressed: .number(suppressed),
                ])
        case .back(let source):
            guard let suppressed = access.users.sourceLines.admit(now: now.instant) else { return }
            log.notice(
                "a source of users answers again",
                [.setting: .text("users.sources.\(names[source])"), .suppressed: .number(suppressed)])
        case .unusable(let source, let user, let fault):
            guard let suppressed = access.users.userLines.admit(now: now.instant) else { return }
            log.warning(
                "a source of users gave an invalid answer about a user, so the user's phones get 503",
                [
                    .setting: .text("users.sources.\(names[source])"), .aor: .described(user),
                    .reason: .text(fault.sentence), .advice: .text(fault.cure), .suppressed: .number(suppressed),
                ])
        }
    }
}

/// Checks logins over HTTP with a user's SIP password.
extension ProxyEngine {
    package enum LoginVerdict: Hashable, Sendable {
        /// The password belongs to the user with the given AOR.
        case right(AddressOfRecord)
        case wrong
        /// The password was not checked because of too many wrong passwords; the client must wait for the given time.
        case refused(Duration)
        /// The source of users has not answered yet, so the login must wait (``loginWaits(_:for:)``).
        case asking(AddressOfRecord)
        /// The password could not be checked, because the sources of users do not answer.
        case unavailable
    }

    /// Checks a user's password, and counts a wrong password in the same step. Therefore simultaneous guesses cannot
    /// exceed the limit.
    ///
    /// - Parameters:
    ///   - name: the user part of the AOR.
    ///   - domain: the domain; `nil` for the daemon's first domain.
    ///   - password: the password in clear text.
    ///   - source: the address of the client.
    ///   - hasWaited: whether the login has already waited for an answer of the sources of users.
    ///   - now: the time by both clocks.
    /// - Returns: the result of checking the password.
    package func login(
        _ name: ByteString, in domain: ByteString?, _ password: ByteString, from source: IPAddress, hasWaited: Bool,
        now: Moment
    ) -> LoginVerdict {
        let known = aor(of: name, in: domain)
        // The daemon checks the password even for a domain that it does not serve, so that the delay does not show
        // which domains exist. All spellings of a user name share one count of wrong passwords.
        let user = known ?? AddressOfRecord(user: name, host: (domain ?? .empty).lowercased())
        if let wait = loginWait(from: source, for: user, now: now) { return .refused(wait) }
        let realm = access.digest.realm(for: user.host)
        let stored = users.user(named: user.user, realm: realm.account)
        if let stored, access.digest.isPassword(password, of: stored, called: user.user, realm: realm) {
            loginSucceeded(from: source, for: user)
            return .right(user)
        }
        // The sources of users are also asked for a user in the store, so that the delay does not show which users the
        // store has (T7).
        let asker = UserCache.Asker.source(source.source)
        let found =
            known == nil
            ? .unknown
            : access.users.cache.find(user, realm: realm.text, for: asker, hasWaited ? .last : .any, now: now.instant)
        var account: DigestUser?
        if stored == nil, case .known(let user, _) = found { account = user }
        let isRight =
            stored == nil && access.digest.isPassword(password, of: account, called: user.user, realm: realm)
        switch found {
        case .asking: return asking(user, now: now)
        case .known where isRight:
            loginSucceeded(from: source, for: user)
            return .right(user)
        case .away where stored == nil: return .unavailable
        case .known(_, mayRefuse: false) where stored == nil && !hasWaited:
            let newer = access.users.cache.find(user, realm: realm.text, for: asker, .newer, now: now.instant)
            if newer == .asking { return asking(user, now: now) }
        case .known, .unknown, .away: break
        }
        loginFailed(from: source, for: user, now: now)
        switch found {
        case .away: return .unavailable
        case .known(_, mayRefuse: false) where stored == nil: return .unavailable
        case .known, .unknown, .asking: return .wrong
        }
    }

    /// The account that a login over HTTP needs from the store, while several nodes use the store; `nil` after too many
    /// wrong passwords. The account is also read for a domain that the daemon does not serve, so that the delay does not
    /// show which domains exist.
    package func accountToRead(
        for name: ByteString, in domain: ByteString?, from source: IPAddress, now: Moment
    ) -> (name: ByteString, realm: ByteString)? {
        let user = aor(of: name, in: domain) ?? AddressOfRecord(user: name, host: (domain ?? .empty).lowercased())
        guard access.sources.logins.wait(for: attempt(from: source, for: user), now: now.instant) == nil else {
            return nil
        }
        return (user.user, access.digest.realm(for: user.host).account)
    }

    private func asking(_ user: AddressOfRecord, now: Moment) -> LoginVerdict {
        askSources(now: now)
        return .asking(user)
    }

    /// Lets a login wait until the sources of users have answered; the end of the wait is
    /// ``ProxyAction/userSettled(_:)``.
    package func loginWaits(_ ticket: LoginTicket, for user: AddressOfRecord, from source: IPAddress) {
        if !access.users.hold(ticket, for: user, from: source) { act(.userSettled(ticket)) }
    }
}
