package import Addressing
package import Bytes
import Collections
import JSON
package import Timekeeping

/// Checks bearer tokens (RFC 8898, RFC 7519, RFC 8725), and remembers tokens with a valid signature.
///
/// A token's claims are checked before its signature, because checking claims costs less. A token with a valid
/// signature is remembered by its hash until newer tokens displace it or its key is withdrawn. All tables of the
/// ``BearerAuthenticator`` have a maximum size.
package struct BearerAuthenticator: Sendable {
    package enum Verdict: Hashable, Sendable {
        /// The token proves that its sender is the given user of the domain.
        case proved(ByteString)
        /// The bearer token proves no user; if `guessed` is not `nil`, the token is treated as a wrong password of this
        /// user.
        case bad(BearerFault, guessed: ByteString?)
        /// The signature was not checked, because the source address has sent too many tokens or wrong passwords; the
        /// sender must wait for the given duration.
        case limited(Duration)
        /// The issuer's keys are being read, or the daemon has not been able to read them since its start.
        case awaitingKeys
    }

    /// A change in the keys of an issuer, for the log.
    package enum KeyEvent: Hashable, Sendable {
        case away(issuer: Int, UserFault, hasKeys: Bool)
        case back(issuer: Int)
        /// The issuer's keys have changed; `count` is the new number of keys.
        case changed(issuer: Int, count: Int)
    }

    private struct Proof {
        let issuer: Int
        let subject: String
        let expiry: Int64
        let start: Int64?
        /// The digest of the key that signed the token: see ``BearerKey/print``.
        let key: ByteString
        let place: AgeList<ByteString>.Place
    }

    package let rules: BearerRules
    private let functions: DigestFunctions
    private var rings: [BearerKeyring]
    private var proofs: [ByteString: Proof] = [:]
    private var ages = AgeList<ByteString>()
    /// The rate limit of signature checks for each source address; a remembered token needs no check.
    private var checks = RateLimit<Int>(perMinute: 3000, capacity: 65_536)
    private var events: [KeyEvent] = []
    /// The number of signatures that were checked since the start.
    package private(set) var checkCount: UInt64 = 0

    private static let longestUser = 255

    package init(_ rules: BearerRules, functions: DigestFunctions) {
        self.rules = rules
        self.functions = functions
        rings = rules.issuers.map { BearerKeyring(refresh: $0.refresh) }
    }

    package var rememberedCount: Int { proofs.count }

    /// The number of issuers whose keys could not be read at the last attempt.
    package var awayCount: Int { rings.count { $0.isAway } }

    /// The issuer whose tokens are accepted for a domain's users; `nil` if no tokens are accepted.
    package func issuer(for domain: ByteString) -> BearerRules.Issuer? { place(for: domain).map { rules.issuers[$0] } }

    private func place(for domain: ByteString) -> Int? { rules.issuers.firstIndex { $0.serves(domain) } }

    // MARK: Judge

    /// Checks a bearer token of a user in a domain.
    ///
    /// - Parameters:
    ///   - text: the token from the request.
    ///   - domain: the domain of the user.
    ///   - source: the address that sent the token, for the limit on signature checks.
    ///   - now: the present time by the monotonic clock and by the wall clock.
    ///   - wait: returns how long the source must wait before a user's token is checked; `nil` for an immediate check.
    /// - Returns: the verdict.
    package mutating func judge(
        _ text: ByteString, in domain: ByteString, from source: IPAddress, now: Moment,
        wait: (ByteString) -> Duration?
    ) -> Verdict {
        guard let place = place(for: domain) else { return .bad(.issuer, guessed: nil) }
        guard text.count <= JSONWebToken.longest else { return .bad(.tooLong, guessed: nil) }
        let issuer = rules.issuers[place]
        let hash = ByteString(functions.hash(.sha256, text.array))
        if let proof = proofs[hash], proof.issuer == place {
            if let fault = Self.fault(expiry: proof.expiry, start: proof.start, issuer, now: now.date) {
                return .bad(fault, guessed: nil)
            }
            guard let user = Self.user(proof.subject, in: domain) else { return .bad(.otherDomain, guessed: nil) }
            return .proved(user)
        }
        let token: JSONWebToken
        do throws(JSONWebToken.Fault) {
            token = try JSONWebToken(text)
        } catch {
            return .bad(error == .tooLong ? .tooLong : .malformed, guessed: nil)
        }
        guard let algorithm = BearerKey.Algorithm(rawValue: token.algorithm), issuer.algorithms.contains(algorithm)
        else { return .bad(.algorithm, guessed: nil) }
        guard token.issuer.map({ Self.isSame($0, issuer.issuer) }) == true else { return .bad(.issuer, guessed: nil) }
        guard issuer.audiences.contains(where: { own in token.audiences.contains { Self.isSame($0, own) } }) else {
            return .bad(.audience, guessed: nil)
        }
        guard let expiry = token.expiry else { return .bad(.endless, guessed: nil) }
        if let fault = Self.fault(expiry: expiry, start: token.start, issuer, now: now.date) {
            return .bad(fault, guessed: nil)
        }
        guard let subject = token.claim(issuer.claim), Self.isName(subject) else {
            return .bad(.noUser, guessed: nil)
        }
        guard let user = Self.user(subject, in: domain) else { return .bad(.otherDomain, guessed: nil) }
        let keys = rings[place].candidates(algorithm, named: token.keyID.map { ByteString($0) })
        guard !keys.isEmpty else {
            let isComing = rings[place].want(now: now.instant)
            return isComing || rings[place].keys.isEmpty ? .awaitingKeys : .bad(.unknownKey, guessed: nil)
        }
        if let wait = wait(user) { return .limited(wait) }
        let sourceKey = source.source.hashValue
        guard checks.admit(sourceKey, now: now.instant) else {
            return .limited(checks.wait(for: sourceKey, now: now.instant) ?? .seconds(1))
        }
        checkCount &+= 1
        guard let key = keys.first(where: { $0.isValid(token.signature, token.signed) }) else {
            return .bad(.signature, guessed: user)
        }
        remember(
            hash,
            Proof(
                issuer: place, subject: subject, expiry: expiry, start: token.start, key: key.print,
                place: ages.append(hash)))
        return .proved(user)
    }

    private static func fault(
        expiry: Int64, start: Int64?, _ issuer: BearerRules.Issuer, now: UnixTime
    ) -> BearerFault? {
        let leeway = issuer.leeway.components.seconds
        if now.seconds &- leeway >= expiry { return .expired }
        if let start, now.seconds &+ leeway < start { return .early }
        return nil
    }

    /// Whether two texts consist of equal bytes. The operator `==` of `String` accepts different bytes for the same
    /// characters.
    private static func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    /// Whether a claim can be the name of a user. Control characters, spaces, quotes, backslashes and angle brackets
    /// are refused, because a URI must not contain them.
    private static func isName(_ subject: String) -> Bool {
        let bytes = subject.utf8
        return !bytes.isEmpty && bytes.count <= longestUser
            && bytes.allSatisfy { $0 > 0x20 && $0 != 0x7f && !"<>\"\\".utf8.contains($0) }
    }

    /// The user name in a claim of the form `bob` or `bob@example.net`; `nil` if the claim names another domain.
    private static func user(_ subject: String, in domain: ByteString) -> ByteString? {
        let text = ByteString(subject)
        guard let at = text.lastIndex(of: UInt8(ascii: "@")) else { return text }
        guard at > 0, text[at + 1..<text.count].lowercased() == domain.lowercased() else { return nil }
        return text[0..<at]
    }

    // MARK: Keys

    /// The indices in ``BearerRules/issuers`` of the issuers whose keys must be read now.
    package mutating func takeQuestions(now: Instant) -> [Int] {
        var asked: [Int] = []
        for index in rings.indices where rings[index].takeQuestion(now: now) { asked.append(index) }
        return asked
    }

    /// The time at which the keys of an issuer must be read next.
    package var nextDue: Instant? { rings.compactMap(\.due).min() }

    package mutating func received(_ keys: [BearerKey], of issuer: Int, now: Instant) {
        guard rings.indices.contains(issuer) else { return }
        if rings[issuer].isAway { events.append(.back(issuer: issuer)) }
        let known = Set(rings[issuer].keys.map { Self.identity($0) })
        let fresh = Set(keys.map { Self.identity($0) })
        rings[issuer].received(keys, now: now)
        guard known != fresh else { return }
        events.append(.changed(issuer: issuer, count: keys.count))
        // Tokens that were signed with a withdrawn key are no longer valid.
        let prints = Set(keys.map(\.print))
        for (hash, proof) in proofs where proof.issuer == issuer && !prints.contains(proof.key) { forget(hash) }
    }

    package mutating func failed(_ fault: UserFault, of issuer: Int, now: Instant) {
        guard rings.indices.contains(issuer) else { return }
        if !rings[issuer].isAway { events.append(.away(issuer: issuer, fault, hasKeys: !rings[issuer].keys.isEmpty)) }
        rings[issuer].failed(now: now)
    }

    package mutating func takeEvents() -> [KeyEvent] {
        defer { events = [] }
        return events
    }

    private static func identity(_ key: BearerKey) -> [ByteString?] {
        [key.id, key.print, ByteString(key.algorithm.rawValue)]
    }

    // MARK: Memory

    private mutating func remember(_ hash: ByteString, _ proof: Proof) {
        forget(hash)
        while proofs.count >= rules.remembered, let oldest = ages.oldest { forget(oldest) }
        proofs[hash] = proof
    }

    private mutating func forget(_ hash: ByteString) {
        if let proof = proofs.removeValue(forKey: hash) { ages.remove(proof.place) }
    }

    // MARK: Challenge

    /// The value of a Bearer challenge (RFC 8898 section 4); `nil` if the domain accepts no tokens.
    package func challenge(for domain: ByteString, realm: ByteString, after fault: BearerFault?) -> ByteString? {
        guard let issuer = issuer(for: domain) else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(160)
        out.append("Bearer realm=\"")
        out.append(quoting: realm)
        out.append("\", authz_server=\"")
        out.append(quoting: issuer.server)
        if let scope = issuer.scope {
            out.append("\", scope=\"")
            out.append(quoting: scope)
        }
        if fault != nil { out.append("\", error=\"invalid_token") }
        out.append("\"")
        return ByteString(out)
    }
}
