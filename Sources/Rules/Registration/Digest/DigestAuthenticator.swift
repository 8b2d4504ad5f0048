package import Addressing
package import Bytes
package import SIPGrammar
package import Timekeeping

/// Digest authentication (RFC 7616, RFC 8760; RFC 2617 for clients without qop): creates challenges, and checks the
/// credentials in requests.
///
/// For unknown users, the computation is the same as for known users. Therefore no response reveals whether a user
/// exists.
package struct DigestAuthenticator: Sendable {
    package enum Verdict: Hashable, Sendable {
        /// The user is authenticated by a password with the given nonce or, if the nonce is `nil`, by a bearer token.
        case authenticated(DigestUser, NonceUse?)
        /// The request must be answered with 401 or 407 and a challenge, which
        /// ``DigestAuthenticator/challenge(realm:stale:as:of:for:users:now:)`` makes.
        case challenge(Reason)
        /// The user is authenticated but may not send the request, which must be answered with 403.
        case forbidden(DigestUser)
        /// The password was not checked because of too many wrong passwords; the sender must wait for the given
        /// duration.
        case limited(Duration)
        /// The request must wait, because a source of users has not answered about the given user name: see
        /// ``UserCache``.
        case asking(ByteString)
        /// The sources of users do not answer, so the request must be answered with 503. If the password differs from
        /// the last known password, `wrong` is the user name, and the attempt is treated as a wrong password.
        case unavailable(wrong: ByteString?)
        /// The keys for bearer tokens are being read or could never be read, so the request must be answered with 503.
        case awaitingKeys
    }

    package enum Reason: Hashable, Sendable {
        /// The request has no credentials for one of the daemon's challenges.
        case nothingShown
        /// The nonce is unknown, too old, used before, or made for another holder; the phone can answer a new challenge
        /// without asking its user.
        case stale
        /// The nonce is valid, but the response is wrong for the given user name. The user may or may not exist.
        case wrong(ByteString)
        /// The response to a binding's kept nonce is wrong, perhaps because the password has changed. The binding must
        /// forget the kept nonce; the phone can answer a new challenge without asking its user.
        case wrongForBinding(ByteString, nonce: UInt64)
        /// The request has a bearer token that the daemon refuses: see ``BearerAuthenticator``.
        case badToken(BearerFault)
        /// The request has a bearer token on a connection without TLS, so the token was not read.
        case tokenInClear

        /// Whether the phone can answer the challenge without asking its user.
        package var isStale: Bool {
            switch self {
            case .stale, .wrongForBinding: true
            case .nothingShown, .wrong, .badToken, .tokenInClear: false
            }
        }
    }

    /// The daemon's role for the sender of a request: registrar or proxy. The role decides the status and the header
    /// fields of a challenge.
    package enum Role: Hashable, Sendable {
        /// The daemon answers as registrar: with 401, WWW-Authenticate and Authorization.
        case registrar
        /// The daemon answers as proxy: with 407, Proxy-Authenticate and Proxy-Authorization.
        case proxy
    }

    package let settings: DigestSettings
    private var realms: Realms
    /// The texts of all realms in which phones authenticate, in lower case.
    package private(set) var realmTexts: [ByteString] = []
    private let functions: DigestFunctions
    private(set) var ledger: NonceLedger
    private var nextSerial: UInt64 = 1
    /// An HA1 that no password has, for responses of unknown users.
    private let dummy: [UInt8]
    /// The algorithms for which the sources outside the store have hashes of all users; `nil` without such sources.
    private let elsewhere: Set<DigestAlgorithm>?

    package init(
        settings: DigestSettings, functions: DigestFunctions, elsewhere: Set<DigestAlgorithm>? = nil
    ) {
        self.settings = settings
        realms = Realms(common: settings.realm)
        self.functions = functions
        self.elsewhere = elsewhere
        ledger = NonceLedger(limit: settings.nonceMemory, lifetime: settings.nonceLifetime)
        dummy = Hex.encode(functions.code(Array("no such user".utf8)))
    }

    /// Sets the realms of the given domains; the given domains are all domains of the daemon.
    package mutating func realmsChanged(_ realms: Realms, of domains: [ByteString]) {
        self.realms = realms
        realmTexts = realms.texts(of: domains)
    }

    /// The realm for the users of a domain.
    package func realm(for domain: ByteString) -> Realm { realms.realm(for: domain) }

    // MARK: Challenge

    /// Makes the header fields of a challenge, one field for each offered algorithm (RFC 8760 section 2.3). A challenge
    /// contains only required parameters, so that a challenge to a forged source address is short (T4.1).
    ///
    /// - Parameters:
    ///   - realm: the realm to which the password belongs.
    ///   - stale: whether the phone can answer without asking its user; if true, the phone will probably use the new
    ///     nonce in later requests too.
    ///   - role: the daemon's role, which decides the name of the header fields.
    ///   - request: the challenged request, whose User-Agent decides the algorithms.
    ///   - holder: the only peer that can answer the challenge.
    ///   - users: all users; the challenge offers only algorithms for which every user has a hash.
    ///   - now: the present time, from which the lifetime of the nonce counts.
    /// - Returns: the header fields, preferred algorithm first, all with the same nonce.
    package mutating func challenge(
        realm: Realm, stale: Bool, as role: Role, of request: SIPRequest, for holder: NonceHolder,
        users: UserDirectory, now: Instant
    ) -> [AddedField] {
        let nonce = nonce(for: holder, stale ? .isForReuse : [], now: now).text
        return offer(to: request.frame.firstValue(of: .userAgent), users).map { algorithm in
            var out: [UInt8] = []
            out.reserveCapacity(128)
            out.append("Digest realm=\"")
            out.append(quoting: realm.text)
            out.append("\", nonce=\"")
            out.append(nonce)
            out.append("\", algorithm=")
            out.append(contentsOf: algorithm.rawValue.utf8)
            out.append(", qop=\"auth\"")
            if stale { out.append(", stale=true") }
            return AddedField(role == .registrar ? "WWW-Authenticate" : "Proxy-Authenticate", ByteString(out))
        }
    }

    private mutating func nonce(for holder: NonceHolder, _ marks: Nonce.Marks, now: Instant) -> Nonce.NonceText {
        defer { nextSerial &+= 1 }
        return Nonce(serial: nextSerial, issued: now, marks).text(for: holder, functions)
    }

    /// Makes a nonce for a push to a user's phone; the phone can use the nonce from any address.
    package mutating func nonce(pushedTo user: AddressOfRecord, now: Instant) -> ByteString {
        nonce(for: .user(user), .isPushed, now: now).text
    }

    /// The algorithms that a challenge offers to a client, preferred algorithm first. The offered algorithms do not
    /// depend on the user or on the user's existence (T7).
    private func offer(to userAgent: ByteString?, _ users: UserDirectory) -> [DigestAlgorithm] {
        if settings.algorithms.contains(.md5), isOld(userAgent) { return [.md5] }
        let common = settings.algorithms.filter { users.allHave($0) && elsewhere?.contains($0) ?? true }
        return common.isEmpty ? settings.algorithms : common
    }

    /// Whether the settings list the client as old; an old client fails at a challenge with any algorithm except MD5.
    package func isOld(_ userAgent: ByteString?) -> Bool {
        settings.oldClients.contains { name in
            guard let userAgent else { return name == DigestSettings.namelessClients }
            return userAgent.hasPrefix(ignoringCase: name)
        }
    }

    // MARK: Check

    /// Checks the credentials of a request. If a request has several credentials, the first credentials with a nonce of
    /// this daemon are used.
    ///
    /// A password is checked only if the nonce proves that its holder received the challenge. Therefore senders with
    /// forged addresses cannot cause hash computations, and wrong passwords count against their real senders (T8).
    ///
    /// - Parameters:
    ///   - request: the received request with the credentials.
    ///   - role: the daemon's role, which decides whether the Authorization or Proxy-Authorization fields are checked.
    ///   - realm: the realm of the users; credentials for other realms are ignored.
    ///   - owner: the required sender, for a REGISTER the To user (RFC 3261 section 10.3 step 4); `nil` accepts any
    ///     user.
    ///   - flow: the flow of the request; a retransmission comes on the same flow as the original.
    ///   - holder: the peer that sent the credentials.
    ///   - users: all users.
    ///   - now: the present time, for the age of the nonce.
    ///   - wait: returns how long a sender must wait before a user's password is checked; `nil` for an immediate check.
    ///   - find: searches the sources of users for a user who is not in the store.
    ///   - pushed: returns the user whose pushed nonce the sender may use; `nil` for none.
    ///   - isKept: whether a binding keeps the nonce with the given name, and the nonce count is new.
    /// - Returns: the verdict; a challenge if no credentials can be used.
    package mutating func check(
        _ request: SIPRequest, as role: Role, realm: Realm, owner: ByteString?, on flow: Flow,
        from holder: NonceHolder, users: UserDirectory, now: Instant, wait: (ByteString) -> Duration?,
        find: (ByteString, UserCache.Wish) -> UserCache.Finding = { _, _ in .unknown },
        pushed: () -> AddressOfRecord? = { nil }, isKept: (_ nonce: UInt64, _ count: UInt32) -> Bool = { _, _ in false }
    ) -> Verdict {
        let all = role == .registrar ? request.authorization : request.proxyAuthorization
        var isStale = false
        for credentials in all where credentials.realm == realm.text {
            guard let answer = answer(credentials, to: request) else { continue }
            let count = answer.count ?? .max
            guard let text = Nonce.NonceText(credentials.nonce),
                let origin = origin(of: text, count: count, for: holder, pushed: pushed, now: now, isKept: isKept)
            else {
                isStale = true
                continue
            }
            if let wait = wait(credentials.username) { return .limited(wait) }
            let user: DigestUser
            switch proof(by: credentials, answer, request.method, realm: realm, users, find) {
            case .right(let proved): user = proved
            case .wrong where origin == .binding:
                return .challenge(.wrongForBinding(credentials.username, nonce: text.name))
            case .wrong: return .challenge(.wrong(credentials.username))
            case .asking: return .asking(credentials.username)
            case .unavailable(let isWrong): return .unavailable(wrong: isWrong ? credentials.username : nil)
            }
            guard
                origin == .binding
                    || ledger.admit(
                        text.nonce.serial, count: count, fingerprint: Self.fingerprint(request, on: flow), now: now)
            else { return .challenge(.stale) }
            guard owner == nil || owner == user.name else { return .forbidden(user) }
            var use = NonceUse(
                origin: origin, name: text.name, count: count,
                isReused: origin != .challenge || count > 1 || text.nonce.marks.contains(.isForReuse))
            if role == .registrar, answer.count == nil { use = use.followed(by: nonce(for: holder, [], now: now)) }
            return .authenticated(user, use)
        }
        return .challenge(isStale ? .stale : .nothingShown)
    }

    /// Whether a request may have one of the daemon's nonces: a young nonce, made for the sender or sent in a push, or a
    /// nonce in a REGISTER that a binding may have kept. This look needs no user, so most invented credentials are told
    /// apart before anything is read.
    package func mayHaveMade(_ request: SIPRequest, as role: Role, for holder: NonceHolder, now: Instant) -> Bool {
        let all = role == .registrar ? request.authorization : request.proxyAuthorization
        return all.contains { credentials in
            guard let text = Nonce.NonceText(credentials.nonce) else { return false }
            guard text.nonce.isYoung(now: now, lifetime: settings.nonceLifetime) else {
                return role == .registrar && settings.reusesNonces
            }
            return text.nonce.marks.contains(.isPushed) || text.isMade(for: holder, functions)
        }
    }

    /// How the sender got the nonce; `nil` if the sender may not use the nonce.
    ///
    /// During its lifetime, a nonce belongs to the peer for whom it was made, and ``NonceLedger`` has its count. After
    /// its lifetime, a nonce belongs to the binding that keeps it, even if the phone has a new address (T39).
    private func origin(
        of text: Nonce.NonceText, count: UInt32, for holder: NonceHolder, pushed: () -> AddressOfRecord?, now: Instant,
        isKept: (_ nonce: UInt64, _ count: UInt32) -> Bool
    ) -> NonceUse.Origin? {
        let nonce = text.nonce
        guard nonce.isYoung(now: now, lifetime: settings.nonceLifetime) else {
            return isKept(text.name, count) ? .binding : nil
        }
        guard nonce.marks.contains(.isPushed) else { return text.isMade(for: holder, functions) ? .challenge : nil }
        guard let pushed = pushed() else { return nil }
        return text.isMade(for: .user(pushed), functions) ? .push : nil
    }

    private enum Proof {
        case right(DigestUser)
        case wrong
        case asking
        case unavailable(isWrong: Bool)
    }

    /// Checks whether the named user's password made the response.
    private func proof(
        by credentials: DigestCredentials, _ answer: Answer, _ method: Method, realm: Realm,
        _ users: UserDirectory, _ find: (ByteString, UserCache.Wish) -> UserCache.Finding
    ) -> Proof {
        if let user = users.user(named: credentials.username, realm: realm.account) {
            if isRight(credentials, answer, method, of: user) { return .right(user) }
            // The sources of users are also asked for a user in the store, because a shorter delay would reveal which
            // users the store has (T7).
            switch find(credentials.username, .any) {
            case .asking: return .asking
            case .away: return .unavailable(isWrong: true)
            case .known, .unknown: return .wrong
            }
        }
        let found = find(credentials.username, .any)
        var known: DigestUser?
        if case .known(let user, _) = found { known = user }
        let isRight = isRight(credentials, answer, method, of: known)
        switch found {
        case .unknown: return .wrong
        case .asking: return .asking
        case .away: return .unavailable(isWrong: false)
        case .known(let user, _) where isRight: return .right(user)
        case .known(_, mayRefuse: true): return .wrong
        case .known(_, mayRefuse: false): break
        }
        // Before a password is treated as wrong, the source of users is asked again, because the password may have
        // changed.
        switch find(credentials.username, .newer) {
        case .asking: return .asking
        case .known(_, mayRefuse: true), .unknown: return .wrong
        case .known(_, mayRefuse: false), .away: return .unavailable(isWrong: true)
        }
    }

    /// Whether the response was computed from the user's password; the check takes the same time for unknown users.
    private func isRight(
        _ credentials: DigestCredentials, _ answer: Answer, _ method: Method, of user: DigestUser?
    ) -> Bool {
        let ha1 = user?.ha1[answer.algorithm]
        let expected = functions.response(
            to: credentials, answer.algorithm, method: method,
            ha1: ha1?.array ?? Array(dummy.prefix(answer.algorithm.digitCount)))
        return equalInConstantTime(expected, credentials.response) && ha1 != nil
    }

    /// A hash of a whole request. A repeated nonce count is accepted only in an identical request, so that overheard
    /// credentials cannot register another Contact (T6).
    private static func fingerprint(_ request: SIPRequest, on flow: Flow) -> Int {
        var hasher = Hasher()
        hasher.combine(request.frame.bytes)
        hasher.combine(flow)
        return hasher.finalize()
    }

    /// Whether a clear-text password is right, for services that get passwords over HTTP. The check of a password takes
    /// the same time for unknown users.
    package func isPassword(
        _ password: ByteString, of name: ByteString, realm: Realm, users: UserDirectory
    ) -> Bool {
        isPassword(password, of: users.user(named: name, realm: realm.account), called: name, realm: realm)
    }

    /// Whether a clear-text password is the user's password; `known` is `nil` for an unknown user.
    package func isPassword(
        _ password: ByteString, of known: DigestUser?, called name: ByteString, realm: Realm
    ) -> Bool {
        let given = DigestUser(
            name: name, realm: realm.text, password: password, algorithms: settings.algorithms, functions: functions)
        var isRight = false
        for algorithm in settings.algorithms {
            let expected = known?.ha1[algorithm] ?? ByteString(dummy.prefix(algorithm.digitCount))
            if equalInConstantTime(given.ha1[algorithm]?.array ?? [], expected) { isRight = true }
        }
        return isRight && known != nil
    }

    private struct Answer {
        let algorithm: DigestAlgorithm
        /// The nonce count in the credentials; `nil` for credentials without qop.
        let count: UInt32?
    }

    /// The checked parts of credentials that do not depend on the user; `nil` if the credentials answer no challenge of
    /// this daemon.
    private func answer(_ credentials: DigestCredentials, to request: SIPRequest) -> Answer? {
        guard let algorithm = algorithm(of: credentials), credentials.response.count == algorithm.digitCount,
            isUsable(credentials.uri, for: request.uri)
        else { return nil }
        guard let qop = credentials.qop else {
            return settings.allowsMissingQop ? Answer(algorithm: algorithm, count: nil) : nil
        }
        guard qop.equalsIgnoringCase("auth"), let cnonce = credentials.cnonce, !cnonce.isEmpty,
            let text = credentials.nonceCount, let count = nonceCount(text), count > 0
        else { return nil }
        return Answer(algorithm: algorithm, count: count)
    }

    /// The algorithm of the credentials; `nil` for an algorithm that is not offered, because an attacker on the path
    /// could choose a weak algorithm.
    private func algorithm(of credentials: DigestCredentials) -> DigestAlgorithm? {
        let name = credentials.algorithm?.string.uppercased() ?? DigestAlgorithm.md5.rawValue
        return settings.algorithms.first { $0.rawValue == name }
    }

    /// Parses a nonce count, which has eight hexadecimal digits (RFC 7616 section 3.4).
    private func nonceCount(_ text: ByteString) -> UInt32? {
        guard text.count == 8 else { return nil }
        var count: UInt32 = 0
        for index in 0..<8 {
            guard let digit = text[index].hexValue else { return nil }
            count = count << 4 | UInt32(digit)
        }
        return count
    }

    /// Whether the URI in the credentials fits the URI of the request. Only scheme, user and host are compared, because
    /// proxies and phones write parameters and ports differently.
    private func isUsable(_ text: ByteString, for uri: SIPURI) -> Bool {
        if text == uri.text { return true }
        guard let given = SIPURI(text) else { return false }
        return given.scheme == uri.scheme && given.user?.percentDecoded() == uri.user?.percentDecoded()
            && SIPURI.isSameHost(given.host, uri.host)
    }
}

extension [UInt8] {
    /// Appends a text with the backslash escapes of a quoted string (RFC 3261 section 25.1).
    mutating func append(quoting text: ByteString) {
        for byte in text.array {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { append(UInt8(ascii: "\\")) }
            append(byte)
        }
    }
}
