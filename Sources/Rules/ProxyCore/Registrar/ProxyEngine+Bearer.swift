import AccessLimits
import Addressing
import Bytes
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import Telemetry
import Timekeeping

/// Checks the bearer tokens of phones (RFC 8898), and keeps the keys for this check up to date (T40).
extension ProxyEngine {
    /// Whether the settings accept bearer tokens of phones.
    private var takesTokens: Bool { !settings.bearer.issuers.isEmpty }

    /// Checks the bearer token of a request.
    ///
    /// - Returns: the verdict; `nil` if the request has no bearer token, or its domain accepts none.
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
            // A token on a flow without TLS is ignored if the request also has digest credentials, which can
            // authenticate the user.
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

    /// The Bearer challenge, which comes before the Digest challenges, because phones prefer the first challenge that
    /// they support.
    ///
    /// The daemon asks for a token only over TLS. Clients that the settings list as old get no Bearer challenge,
    /// because they fail at an unknown scheme.
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

    /// Returns the request without its bearer tokens, so that no token gets into the journal, into the store or to a
    /// peer (T40.7).
    func withoutTokens(_ incoming: IncomingRequest) -> IncomingRequest {
        guard takesTokens, let bytes = incoming.request.frame.withoutBearer(),
            let request = functions.reread(bytes)
        else { return incoming }
        return incoming.with(request)
    }

    // MARK: Keys

    /// Orders the shell to read the keys that are due, logs whether keys could be read, and sets the timer for the next
    /// reading.
    func readKeys(now: Moment) {
        guard takesTokens else { return }
        for issuer in access.bearer.takeQuestions(now: now.instant) { act(.readKeys(issuer: issuer)) }
        for news in access.bearer.takeNews() { tell(news, now: now) }
        if let due = access.bearer.nextDue, due != keysTimer {
            keysTimer = due
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

    private func tell(_ news: BearerAuthenticator.News, now: Moment) {
        let names = access.bearer.rules.issuers.map { "bearer.issuers.\($0.name)" }
        guard let suppressed = access.keyLines.admit(now: now.instant) else { return }
        switch news {
        case .away(let issuer, let fault, hasKeys: true):
            log.error(
                "the keys for bearer tokens cannot be read again, so the daemon keeps the keys that it read last",
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
