package import AccessLimits
package import Addressing
package import Bytes
package import Registration
import Routing
import SIPGrammar
import Telemetry
package import Timekeeping

/// Holds requests until a source of users outside the store has answered.
extension ProxyEngine {
    /// Holds a request until the sources of users have answered about its user.
    ///
    /// - Returns: false if there is no room, and the request must be refused.
    func waits(_ incoming: IncomingRequest, for user: AddressOfRecord, now: Moment) -> Bool {
        let admission = access.users.hold(incoming, for: user)
        askSources(now: now)
        return admission != .noRoom
    }

    /// A random Retry-After of 3 to 10 s for requests that no source of users can answer now, so that phones retry at
    /// different times.
    var retryLater: AddedField { Self.retryAfter(seconds: 3 + Int(functions.random() % 8)) }

    /// Orders the shell to send new questions to the sources of users, logs failures and recoveries of the sources, and
    /// sets the timer of the cache.
    func askSources(now: Moment) {
        for question in access.users.cache.takeOrders() { act(.askUser(question)) }
        for news in access.users.cache.takeNews() { tell(news, now: now) }
        if let due = access.users.nextTimer() { _ = output.timers.schedule(.usersDue, at: due) }
    }

    /// Drops the waiting requests of a closed connection, and ends their transactions with 503.
    func waitingEnded(on flow: Flow, now: Moment) {
        for incoming in access.users.flowEnded(flow) where incoming.server != nil {
            refuse(incoming, .serviceUnavailable, now: now)
        }
    }

    private func tell(_ news: UserCache.News, now: Moment) {
        let names = access.users.cache.rules.sources.map(\.name)
        switch news {
        case .away(let source, let fault):
            guard let suppressed = access.users.sourceLines.admit(now: now.instant) else { return }
            log.error(
                "a source of users does not answer, so users whose data the daemon does not remember get 503",
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
                "a source of users gave a wrong answer about one user, so the daemon cannot use the answer",
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
        /// The password belongs to this user.
        case right(AddressOfRecord)
        case wrong
        /// The password was not checked, because too many wrong passwords came from the address or for the user; the
        /// client must wait this long.
        case refused(Duration)
        /// A source of users was asked and has not answered yet, so the login must wait (``loginWaits(_:for:)``).
        case asking(AddressOfRecord)
        /// The password could not be checked, because the sources of users do not answer now.
        case unavailable
    }

    /// Checks a user's password, and counts a wrong one in the same step, so that simultaneous guesses cannot pass the
    /// limit of wrong passwords.
    ///
    /// - Parameters:
    ///   - name: the user part of the AOR.
    ///   - domain: the domain; `nil` for our first domain.
    ///   - password: the password in clear text.
    ///   - source: the client's address.
    ///   - hasWaited: whether the login has already waited for an answer of the sources of users.
    ///   - now: the time by both clocks.
    /// - Returns: the result of the check.
    package func login(
        _ name: ByteString, in domain: ByteString?, _ password: ByteString, from source: IPAddress, hasWaited: Bool,
        now: Moment
    ) -> LoginVerdict {
        let known = aor(of: name, in: domain)
        // The password is checked for a foreign domain too, so that the delay does not show which domains are known.
        // All spellings of a user share one count of wrong passwords.
        let user = known ?? AddressOfRecord(user: name, host: (domain ?? .empty).lowercased())
        if let wait = loginWait(from: source, for: user, now: now) { return .refused(wait) }
        let realm = access.digest.realm(for: user.host)
        let stored = users.user(named: user.user, realm: realm.account)
        if let stored, access.digest.isPassword(password, of: stored, called: user.user, realm: realm) {
            loginSucceeded(from: source, for: user)
            return .right(user)
        }
        // The sources are asked even for a user of the store, so that the delay does not show which users the store has
        // (T7).
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

    private func asking(_ user: AddressOfRecord, now: Moment) -> LoginVerdict {
        askSources(now: now)
        return .asking(user)
    }

    /// Holds a login until the sources of users have answered about its user, and then emits
    /// ``ProxyAction/userSettled(_:)``.
    package func loginWaits(_ ticket: LoginTicket, for user: AddressOfRecord, from source: IPAddress) {
        if !access.users.hold(ticket, for: user, from: source) { act(.userSettled(ticket)) }
    }
}
