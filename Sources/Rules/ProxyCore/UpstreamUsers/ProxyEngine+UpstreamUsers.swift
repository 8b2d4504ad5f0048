import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Reports users' devices and passwords to the ``UpstreamAgent``, sends the registration client's REGISTERs to the
/// PBXs, and logs results.
extension ProxyEngine {
    /// Calls `body` with the ``UpstreamAgent``, and executes the registration client's orders.
    func changeUpstreamUsers(
        now: Moment, _ body: (inout UpstreamAgent, Moment, inout [UpstreamOrder]) -> Void
    ) {
        var orders: [UpstreamOrder] = []
        body(&upstreamUsers.agent, now, &orders)
        // A loop executes the registration client's orders, because an unsent REGISTER causes further orders.
        while !orders.isEmpty {
            let current = orders
            orders = []
            for order in current { carryOut(order, now: now, into: &orders) }
        }
    }

    private func carryOut(_ order: UpstreamOrder, now: Moment, into orders: inout [UpstreamOrder]) {
        switch order {
        case .send(let order):
            if let failure = register(order, now: now) {
                upstreamUsers.agent.failed(order.number, failure, now: now, into: &orders)
            }
        case .abandon(let number):
            noLongerAsked(number)
            guard let client = upstreamUsers.pending.removeValue(forKey: number)?.client else { return }
            sip.legs.end(client)
            withTransactions { $0.giveUp(client, now: now.instant, into: &$1) }
        case .storeCeiling(let ceiling): act(.storeRegisterCeiling(ceiling))
        case .tell(let event): tell(event, now: now)
        }
    }

    // MARK: Users

    /// Tells the registration client that a device of the user was added, changed or removed.
    ///
    /// - Parameters:
    ///   - aor: the user.
    ///   - date: the time of the phone's REGISTER; `nil` if no REGISTER changed the device.
    ///   - isFromEarlierRun: whether the daemon may have registered the user at the PBX before a restart.
    ///   - now: the present time by the monotonic clock and by the wall clock.
    func noteUpstreamUser(
        _ aor: AddressOfRecord, signed date: UnixTime? = nil, isFromEarlierRun: Bool = false, now: Moment
    ) {
        guard !upstreamUsers.pbxs.isEmpty, upstreamUsers.agent.isActive, let user = upstreamUsers.user(aor) else {
            return
        }
        let (algorithms, fingerprint) = passwordFacts(of: aor, now: now)
        // Another node may have registered the user, before this node got the duties.
        let mayBeBound = isFromEarlierRun || network.flows.haveNodes && !upstreamUsers.hasSearched
        guard let sign = registrar.bindings.lastSign(ofWakeable: aor) else {
            let ended = WakeableUser(
                upstream: user.upstream, name: user.name, algorithms: algorithms, fingerprint: fingerprint,
                lastSign: now.date, isFromEarlierRun: mayBeBound)
            return changeUpstreamUsers(now: now) { $0.deviceEnded(ended, now: $1, into: &$2) }
        }
        changeUpstreamUsers(now: now) { agent, now, orders in
            agent.userIsWakeable(
                WakeableUser(
                    upstream: user.upstream, name: user.name, algorithms: algorithms, fingerprint: fingerprint,
                    lastSign: max(sign, date ?? sign),
                    isFromEarlierRun: mayBeBound), now: now, into: &orders)
        }
    }

    // MARK: REGISTERs

    /// Sends a REGISTER that the registration client has ordered, or first asks a source of users for the password.
    ///
    /// - Returns: why the REGISTER cannot be sent; `nil` if the REGISTER was sent or waits for the password.
    func register(_ order: RegisterOrder, after step: PasswordStep = .none, now: Moment) -> RegisterFailure? {
        guard let number = upstreamUsers.number(of: order.user.upstream),
            let hop = upstreamUsers.pbxs[number].hops.first(where: { $0.endpoint == order.server.endpoint }),
            let listener = identity.listener(for: hop.transport, to: hop.endpoint.address, preferring: nil)
        else { return .noAnswer }
        let domain = upstreamUsers.pbxs[number].domain
        var credentials: AddedField?
        if let answer = order.answer {
            switch password(for: order, after: step, now: now) {
            case .known(let password):
                credentials = answer.field(for: password, uri: OwnRegister.requestURI(of: domain), functions.digest)
                if credentials == nil { return .noPassword }
            case .unknown: return .noPassword
            case .away: return .passwordAway
            case .busy: return .busy
            case .asking: return nil
            }
        }
        guard let client = sip.makeClientTransaction() else { return .busy }
        let contact = order.purpose == .query ? nil : Self.contact(order.token, at: listener)
        let request = OwnRegister(
            domain: domain, user: order.user.name, via: via(for: client, listener: listener, loopHash: 0),
            callID: order.callID, cseq: order.cseq, tag: ByteString(Hex.encode(functions.random().bytes)),
            contact: contact, expires: order.purpose.seconds,
            path: order.hasPath ? Self.path(to: listener) : nil, credentials: credentials)
        let flow = Flow(
            transport: hop.transport, listener: listener.number, connection: 0, remote: hop.endpoint, server: hop.server
        )
        upstreamUsers.pending[order.number] = (client, hop.endpoint)
        sip.legs.start(client, order.number)
        withTransactions { $0.start(client, request: request.outgoing, on: flow, now: now.instant, into: &$1) }
        return nil
    }

    /// Sends a REGISTER that waited for the user's password; or, after a refusal by the PBX, compares the new password
    /// with the refused password.
    func passwordSettled(of aor: AddressOfRecord, now: Moment) {
        guard !upstreamUsers.asked.isEmpty, let asked = upstreamUsers.asked.removeValue(forKey: aor) else { return }
        switch asked {
        case .send(let order):
            guard let failure = register(order, after: .asking, now: now) else { return }
            changeUpstreamUsers(now: now) { $0.failed(order.number, failure, now: $1, into: &$2) }
        // The other nodes know further contacts of the user.
        case .compare where network.flows.haveNodes: readUpstreamUser(aor)
        case .compare: noteUpstreamUser(aor, now: now)
        case .read: upstreamUsers.asked[aor] = asked
        }
    }

    /// The contact that the daemon registers at the PBX: a token as user, and this daemon as host.
    private static func contact(_ token: ByteString, at listener: Listener) -> ByteString {
        ByteString(capacity: 96) { out in
            out.append("sip:")
            out.append(token)
            out.append("@")
            out.append(listener.sentBy)
            guard listener.transport != .udp else { return }
            out.append(";transport=")
            out.append(text: listener.transport.parameterName)
        }
    }

    /// The URI in the Path of a REGISTER (RFC 3327): the address of this daemon, without a user.
    private static func path(to listener: Listener) -> ByteString {
        ByteString(capacity: 96) { out in
            out.append("sip:")
            out.append(listener.sentBy)
            if listener.transport != .udp {
                out.append(";transport=")
                out.append(text: listener.transport.parameterName)
            }
            out.append(";lr")
        }
    }

    // MARK: The log

    func tell(_ event: UpstreamEvent, now: Moment) {
        switch event {
        case .registered(let user, let after):
            log.info("the daemon has registered a user at the PBX", [.aor: aor(of: user), .duration: .duration(after)])
        case .refused(let user, .noPassword):
            noteUser(
                user, "a user is not registered at the PBX, because the daemon has no password of the user",
                UpstreamRefusal.noPassword.words, UpstreamRefusal.noPassword.advice, now: now)
        case .refused(let user, let refusal):
            if case .status = refusal { recheckPassword(of: user, now: now) }
            noteUser(
                user, "the PBX refuses to register a user, so calls do not reach the user's phones", refusal.words,
                refusal.advice,
                now: now)
        case .unknownUser(let user):
            noteUser(
                user, "the PBX refuses to register a user, so calls do not reach the user's phones",
                "the PBX has no such user (404)",
                "add the user at the PBX, then run sippushd upstream retry; otherwise the daemon tries again at the phone's next REGISTER after an hour",
                now: now)
        case .failed(let user, let status):
            noteUser(
                user, "the PBX did not register a user, so the daemon tries again later", "status \(status)",
                "look at the PBX's log for the REGISTERs of this daemon", now: now)
        case .notListed(let user):
            noteUser(
                user, "the PBX did not register a user, so the daemon tries again later",
                "the PBX accepted the REGISTER, but its 200 does not list the contact",
                "check whether the PBX allows the user another contact", now: now)
        case .lapsed(let user):
            noteUser(
                user, "a user's registration at the PBX expired before the daemon could renew it",
                "the registration ended before it could be renewed",
                "look at the earlier log lines about this PBX", now: now)
        case .ended(let user, let reason):
            upstreamUsers.removed[user] = nil
            if reason == .noSignOfLife {
                log.notice(
                    "the daemon ended a user's registration at the PBX, because no phone of the user registered within the time in the setting 'keep-for'",
                    [.aor: aor(of: user)])
            } else {
                log.info("the daemon ended a user's registration at the PBX", [.aor: aor(of: user)])
            }
        case .notEnded(let user, _):
            upstreamUsers.removed[user] = nil
            log.info(
                "the daemon could not end a user's registration at the PBX, so the registration lasts until it expires",
                [.aor: aor(of: user)])
        case .registersAgain(let upstream, let count, let sign):
            log.notice(
                "the daemon registers all users at the PBX again",
                [.target: name(of: upstream), .count: .number(count), .reason: .text(Self.reason(sign))])
        case .grantTooShort(let upstream, let seconds):
            log.warning(
                "the PBX grants registrations of only a few seconds, so some registrations expire before they are renewed: raise the shortest expiry in the PBX's settings",
                [.target: name(of: upstream), .duration: .duration(.seconds(Int64(seconds)))])
        case .refusesEverybody(let upstream, let pause):
            log.error(
                "the PBX refused many users in a row, so the daemon tries only one user after each pause: check the setting 'digest.realm', the passwords, and whether the PBX bans this daemon",
                [.target: name(of: upstream), .duration: .duration(pause)])
        case .unchallenged(let upstream):
            if let number = upstreamUsers.number(of: upstream) { takesOurWord(number) }
            log.warning(
                "the PBX registers users without a password, so anybody who can send from this daemon's address can register as any user",
                [.target: name(of: upstream)])
        case .answersNoQuery(let upstream):
            log.info(
                "the PBX does not say which contacts are registered, so the daemon cannot notice a short restart of the PBX",
                [.target: name(of: upstream)])
        case .isBehind(let upstream):
            log.warning(
                "users wait for minutes until the daemon registers them at the PBX: raise the setting 'register-upstream.*.rate'",
                [.target: name(of: upstream)])
        case .serverFails(let upstream, let server):
            log.warning(
                "a server of the PBX answers REGISTERs with errors or not at all, so the daemon uses this server again only after a pause",
                [.target: .described(server.endpoint), .object: name(of: upstream)])
        case .serverAnswers(let upstream, let server):
            log.notice(
                "a server of the PBX answers REGISTERs again",
                [.target: .described(server.endpoint), .object: name(of: upstream)])
        }
    }

    private func noteUser(
        _ user: UpstreamUser, _ line: StaticString, _ reason: String, _ advice: String, now: Moment
    ) {
        guard let suppressed = upstreamUsers.lines.admit(now: now.instant) else { return }
        log.warning(
            line,
            [
                .aor: aor(of: user), .reason: .text(reason), .advice: .text(advice), .suppressed: .number(suppressed),
            ])
    }

    private func aor(of user: UpstreamUser) -> LogValue {
        upstreamUsers.aor(of: user).map { .described($0) } ?? .bytes(user.name)
    }

    private func name(of upstream: UpstreamNumber) -> LogValue {
        .bytes(upstreamUsers.agent.domain(upstream)?.domain ?? .empty)
    }

    private static func reason(_ sign: LossSign) -> String {
        switch sign {
        case .answersAgain: "it answers again after it was down"
        case .contactMissing: "a contact that must be there was missing"
        case .serverDown: "a server went down, and another server of the PBX is used"
        case .order: "an operator ordered it"
        }
    }

    func takesOurWord(_ number: Int) {
        // After a PBX has challenged one phone, the daemon challenges no phone of this PBX, because calls through the
        // PBX would fail. The PBX may still accept another phone's request without a password.
        guard upstreamUsers.pbxs[number].credence == .unknown else { return }
        upstreamUsers.pbxs[number].credence = .takesOurWord
        log.warning(
            "a PBX accepts requests from this daemon without a password, so the daemon now checks the passwords of the calling phones",
            [.target: .bytes(upstreamUsers.pbxs[number].domain)])
    }
}

extension RegisterOrder.Purpose {
    fileprivate var seconds: UInt32 { if case .bind(let seconds) = self { seconds } else { 0 } }
}

extension UInt64 {
    fileprivate var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(big: self)
        return bytes
    }
}

/// Finds the passwords of users whom the daemon registers at a PBX: in the store, or in the sources of users outside
/// the store.
extension ProxyEngine {
    /// The steps by which the engine finds a password.
    enum PasswordStep {
        case none
        /// The store of the cluster has answered.
        case reading
        /// A source of users has answered.
        case asking
    }

    enum PasswordFinding {
        case known(DigestUser)
        /// Neither the store nor a source of users has a password of the user.
        case unknown
        /// A source of users is asked; ``passwordSettled(of:now:)`` sends the REGISTER after the answer.
        case asking
        /// No source of users can answer now.
        case away
        /// The registration client has reached its limit of open queries to the sources of users.
        case busy
    }

    /// The digest algorithms and the fingerprint of a user's password, if the daemon knows them without asking a source
    /// of users.
    ///
    /// A source of users is asked for a password only when the PBX challenges the user, so that start-up causes few
    /// queries.
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

    /// The password for the PBX's challenge, or the reason why the password is not known yet.
    func password(for order: RegisterOrder, after step: PasswordStep, now: Moment) -> PasswordFinding {
        guard let aor = upstreamUsers.aor(of: order.user) else { return .unknown }
        if network.flows.haveNodes, step == .none {
            // Another node may have changed the password.
            readPassword(for: order, of: aor)
            return .asking
        }
        let hasAsked = step == .asking
        let realm = access.digest.realm(for: aor.host)
        if let stored = registrar.users.user(named: aor.user, realm: realm.account)
            ?? (order.purpose == .end ? upstreamUsers.removed[order.user] : nil)
        {
            upstreamUsers.agent.passwordFound(
                order.user, DigestAlgorithms(of: stored), fingerprint: stored.fingerprint)
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

    /// Asks the sources of users again for a password that the PBX has refused, because the remembered password may be
    /// outdated. The daemon tries a different password from the source, but never the refused password again (T38.2).
    func recheckPassword(of user: UpstreamUser, now: Moment) {
        guard let aor = upstreamUsers.aor(of: user), upstreamUsers.asked[aor] == nil else { return }
        let realm = access.digest.realm(for: aor.host)
        guard registrar.users.user(named: aor.user, realm: realm.account) == nil,
            access.users.cache.find(aor, realm: realm.text, for: .agent, .newer, now: now.instant) == .asking
        else { return }
        upstreamUsers.asked[aor] = .compare
        askSources(now: now)
    }

    /// Drops a REGISTER that waits for its user's password, because the registration client no longer needs the
    /// REGISTER.
    func noLongerAsked(_ number: RegisterNumber) {
        guard !upstreamUsers.asked.isEmpty else { return }
        let place = upstreamUsers.asked.firstIndex {
            switch $0.value {
            case .send(let order), .read(let order): order.number == number
            case .compare: false
            }
        }
        if let place { upstreamUsers.asked.remove(at: place) }
    }
}

extension DigestUser {
    /// A fingerprint that changes with the HA1: a randomly seeded hash, from which nobody can compute the HA1.
    fileprivate var fingerprint: UInt32 { UInt32(truncatingIfNeeded: ha1.hashValue) }
}
