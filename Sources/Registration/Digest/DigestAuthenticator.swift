package import Addressing
package import SIPGrammar
package import Timekeeping

/// Digest authentication (RFC 7616, RFC 8760; RFC 2617 for clients without qop): challenges and the check of answers.
///
/// What an answer looks like does not tell whether the user exists: for an unknown one the same is computed.
package struct DigestAuthenticator: Sendable {
    package enum Verdict: Hashable, Sendable {
        case authenticated(DigestUser)
        /// Answer 401 or 407 with ``DigestAuthenticator/challenge(realm:stale:as:now:)``.
        case challenge(stale: Bool)
        /// The user is who they say, but may not do this: answer 403.
        case forbidden
    }

    /// Who asks: it decides which header fields are used.
    package enum Role: Hashable, Sendable {
        /// WWW-Authenticate and Authorization, with 401.
        case registrar
        /// Proxy-Authenticate and Proxy-Authorization, with 407.
        case proxy
    }

    package let settings: DigestSettings
    private let functions: DigestFunctions
    private var ledger: NonceLedger
    private var nextSerial: UInt64 = 1
    /// Stands in for the HA1 of users that do not exist; nobody knows a password for it.
    private let dummy: [UInt8]
    private let opaque: ByteString

    package init(settings: DigestSettings, functions: DigestFunctions) {
        self.settings = settings
        self.functions = functions
        ledger = NonceLedger(limit: settings.nonceMemory, lifetime: settings.nonceLifetime)
        dummy = Hex.encode(functions.code(Array("no such user".utf8)))
        opaque = ByteString(Hex.encode(Array(functions.code(Array("opaque".utf8)).prefix(8))))
    }

    /// The realm of requests to that domain.
    package func realm(for domain: ByteString) -> ByteString {
        settings.realm.map { ByteString($0) } ?? domain.lowercased()
    }

    /// Answered challenges that are remembered; at most ``DigestSettings/nonceMemory``.
    package var rememberedCount: Int { ledger.count }

    // MARK: Challenge

    /// One field for each algorithm, the preferred one first (RFC 8760 section 2.3); all with the same nonce.
    package mutating func challenge(realm: ByteString, stale: Bool, as role: Role, now: Instant) -> [AddedField] {
        let nonce = Nonce(serial: nextSerial, issued: now).text(functions)
        nextSerial &+= 1
        return settings.algorithms.map { algorithm in
            var out: [UInt8] = []
            out.append("Digest realm=\"")
            out.append(quoting: realm)
            out.append("\", nonce=\"")
            out.append(nonce)
            out.append("\", opaque=\"")
            out.append(opaque)
            out.append("\", algorithm=")
            out.append(contentsOf: algorithm.rawValue.utf8)
            out.append(", qop=\"auth\"")
            if stale { out.append(", stale=true") }
            return AddedField(role == .registrar ? "WWW-Authenticate" : "Proxy-Authenticate", ByteString(out))
        }
    }

    // MARK: Check

    /// Judges the credentials of a request.
    ///
    /// - Parameters:
    ///   - request: the request as received.
    ///   - role: which of its credentials to look at.
    ///   - realm: credentials for other realms are not ours.
    ///   - owner: the user that must have made the request: of a REGISTER the To user (RFC 3261 section 10.3 step 4);
    ///     `nil` when any user may.
    ///   - flow: a retransmission comes on the flow of the original.
    ///   - users: who exists.
    ///   - now: the age of a nonce ends here.
    /// - Returns: the verdict; a challenge when no credentials can be used.
    package mutating func check(
        _ request: SIPRequest, as role: Role, realm: ByteString, owner: ByteString?, on flow: Flow,
        users: UserDirectory, now: Instant
    ) -> Verdict {
        let all = role == .registrar ? request.authorization : request.proxyAuthorization
        var isStale = false
        for credentials in all where credentials.realm == realm {
            guard let answer = answer(credentials, to: request) else { continue }
            let user = users.user(named: credentials.username, realm: realm)
            let ha1 = user?.ha1[answer.algorithm]
            let expected = response(
                to: credentials, answer, method: request.method,
                ha1: ha1?.array ?? Array(dummy.prefix(answer.algorithm.digitCount)))
            let isRight = equalInConstantTime(expected, credentials.response)
            guard isRight, let user, ha1 != nil else { continue }
            guard admits(credentials, answer, request, on: flow, now: now) else {
                isStale = true
                continue
            }
            if let owner, owner != user.name { return .forbidden }
            return .authenticated(user)
        }
        return .challenge(stale: isStale)
    }

    /// Whether a password itself is the user's, for services that are given one. Takes as long for users who do not exist.
    package func isPassword(
        _ password: ByteString, of name: ByteString, realm: ByteString, users: UserDirectory
    ) -> Bool {
        let known = users.user(named: name, realm: realm)
        let given = DigestUser(
            name: name, realm: realm, password: password, algorithms: settings.algorithms, functions: functions)
        var isRight = false
        for algorithm in settings.algorithms {
            let expected = known?.ha1[algorithm] ?? ByteString(dummy.prefix(algorithm.digitCount))
            if equalInConstantTime(given.ha1[algorithm]?.array ?? [], expected) { isRight = true }
        }
        return isRight && known != nil
    }

    private struct Answer {
        let algorithm: DigestAlgorithm
        /// `nil` without qop.
        let count: UInt32?
    }

    /// What can be said of credentials without knowing the user; `nil` when they fit no challenge of ours.
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

    /// Only what was offered: otherwise an attacker in the middle could choose the weakest.
    private func algorithm(of credentials: DigestCredentials) -> DigestAlgorithm? {
        let name = credentials.algorithm?.string.uppercased() ?? DigestAlgorithm.md5.rawValue
        return settings.algorithms.first { $0.rawValue == name }
    }

    /// Eight hexadecimal digits (RFC 7616 section 3.4).
    private func nonceCount(_ text: ByteString) -> UInt32? {
        guard text.count == 8 else { return nil }
        var count: UInt32 = 0
        for index in 0..<8 {
            guard let digit = text[index].hexValue else { return nil }
            count = count << 4 | UInt32(digit)
        }
        return count
    }

    /// Leniently: proxies and phones disagree about parameters and ports, not about user and host.
    private func isUsable(_ text: ByteString, for uri: SIPURI) -> Bool {
        if text == uri.text { return true }
        guard let given = URIText.read(text) else { return false }
        return given.scheme == uri.scheme && given.user?.percentDecoded() == uri.user?.percentDecoded()
            && SIPURI.isSameHost(given.host, uri.host)
    }

    private func response(
        to credentials: DigestCredentials, _ answer: Answer, method: Method, ha1: [UInt8]
    ) -> [UInt8] {
        var text: [UInt8] = []
        method.append(to: &text)
        text.append(":")
        text.append(credentials.uri)
        let ha2 = functions.hexHash(answer.algorithm, text)

        text.removeAll(keepingCapacity: true)
        text.append(contentsOf: ha1)
        text.append(":")
        text.append(credentials.nonce)
        text.append(":")
        if answer.count != nil {
            for part in [credentials.nonceCount, credentials.cnonce, credentials.qop] {
                text.append(part ?? .empty)
                text.append(":")
            }
        }
        text.append(contentsOf: ha2)
        return functions.hexHash(answer.algorithm, text)
    }

    /// Whether the nonce is ours, young enough, and not yet used with that count. Without a count it is good once.
    private mutating func admits(
        _ credentials: DigestCredentials, _ answer: Answer, _ request: SIPRequest, on flow: Flow, now: Instant
    ) -> Bool {
        guard let nonce = Nonce(credentials.nonce, functions), nonce.issued <= now,
            now - nonce.issued <= settings.nonceLifetime
        else { return false }
        var hasher = Hasher()
        hasher.combine(request.callID)
        hasher.combine(request.cseq)
        hasher.combine(credentials.response)
        hasher.combine(flow)
        return ledger.admit(
            nonce.serial, count: answer.count ?? .max, fingerprint: hasher.finalize(), now: now)
    }
}

extension [UInt8] {
    /// Appends the inside of a quoted string (RFC 3261 section 25.1).
    fileprivate mutating func append(quoting text: ByteString) {
        for byte in text.array {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { append(UInt8(ascii: "\\")) }
            append(byte)
        }
    }
}
