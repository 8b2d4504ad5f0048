import Addressing
import Bytes
import Crypto
import Registration
import SIPGrammar
import SIPMessage
import TestSupport
import Timekeeping

/// A simulated PBX with users and passwords, which answers REGISTERs. The simulated PBX parses the bytes of each
/// REGISTER and checks the digest.
struct SimulatedRegistrar {
    struct StoredContact {
        let user: String
        let callID: String
        var until: Instant
        var cseq: UInt32
    }

    struct Behaviour {
        var realm = "pbx.test"
        var algorithms: [DigestAlgorithm] = [.md5]
        var offersQop = true
        var nonceLife: Duration = .seconds(60)
        var asksPassword = true
        var longestGrant: UInt32 = 3600
        var shortestGrant: UInt32 = 60
        /// Whether the PBX refuses an expiry below `shortestGrant` with 423, instead of granting `shortestGrant`.
        var refusesShort = false
        /// The expiry that the simulated PBX always grants; `nil` to grant the requested expiry.
        var fixedGrant: UInt32?
        var alwaysStale = false
        var marksStale = true
        /// Contacts that every 200 lists before the user's stored contacts.
        var listedToo: [String] = []
        var listsOurs = true
        var answersQueries = true
        /// A status with which the PBX answers every REGISTER, with the header fields in `rows`; `nil` for normal
        /// answers.
        var status: UInt16?
        var rows: [String] = []
        var isSilent = false
        /// Whether the PBX accepts a nonce only from the user who got it.
        var bindsNonces = false
    }

    var behaviour = Behaviour()
    var passwords: [String: String] = [:]
    var contacts: [String: [StoredContact]] = [:]
    private(set) var received = 0
    /// The number of REGISTERs of each user with a wrong password and a valid nonce, since the last right password. A
    /// real PBX locks an account after some wrong passwords.
    private(set) var wrongPasswords: [String: Int] = [:]
    private(set) var sendTimes: [Instant] = []
    private(set) var lastExpires: UInt32?
    private(set) var usedAlgorithms: [String] = []
    private var nonces: [String: Instant] = [:]
    private var owners: [String: String] = [:]
    private var counts: [String: UInt32] = [:]
    private var nextNonce = 1

    mutating func restartEmpty() {
        contacts = [:]
        nonces = [:]
    }

    func live(_ user: String, now: Instant) -> [StoredContact] { (contacts[user] ?? []).filter { $0.until > now } }

    /// Answers a REGISTER as the PBX.
    ///
    /// - Returns: the bytes of the response; `nil` if the PBX sends none.
    mutating func answer(_ bytes: [UInt8], now: Instant) -> [UInt8]? {
        guard case .request(let request) = MessageReader().read(bytes.span, isStream: false),
            request.method == .register
        else { return nil }
        guard !behaviour.isSilent else { return nil }
        received += 1
        sendTimes.append(now)
        let user = request.to.uri.user?.percentDecoded().string ?? ""
        if let status = behaviour.status { return respond(request, status, behaviour.rows) }
        if behaviour.asksPassword, let refusal = authenticate(request, user, now: now) { return refusal }
        guard passwords[user] != nil else { return respond(request, 404, []) }
        guard let contact = request.contacts.first else {
            return behaviour.answersQueries ? respond(request, 200, list(user, now: now)) : respond(request, 400, [])
        }
        return store(request, user, contact, now: now)
    }

    private mutating func store(_ request: SIPRequest, _ user: String, _ contact: NameAddress, now: Instant) -> [UInt8]
    {
        let asked = request.expires ?? 3600
        lastExpires = asked
        let token = contact.uri.user?.string ?? ""
        let callID = request.callID.string
        var stored = (contacts[user] ?? []).filter { $0.until > now }
        let old = stored.firstIndex { $0.user == token }
        if let old, stored[old].callID == callID, request.cseq.number <= stored[old].cseq {
            return respond(request, 500, [])
        }
        guard asked > 0 else {
            if let old { stored.remove(at: old) }
            contacts[user] = stored
            return respond(request, 200, list(user, now: now))
        }
        if behaviour.refusesShort, asked < behaviour.shortestGrant {
            return respond(request, 423, ["Min-Expires: \(behaviour.shortestGrant)"])
        }
        let granted = behaviour.fixedGrant ?? min(max(asked, behaviour.shortestGrant), behaviour.longestGrant)
        let new = StoredContact(
            user: token, callID: callID, until: now + .seconds(Int64(granted)), cseq: request.cseq.number)
        if let old { stored[old] = new } else { stored.append(new) }
        contacts[user] = stored
        return respond(request, 200, list(user, now: now))
    }

    private func list(_ user: String, now: Instant) -> [String] {
        var rows = behaviour.listedToo.map { "Contact: \($0)" }
        for contact in live(user, now: now) where behaviour.listsOurs {
            let rest = (contact.until - now).nanoseconds / 1_000_000_000
            rows.append("Contact: <sip:\(contact.user)@rewritten.test:5060;x-ast-orig-host=a>;expires=\(rest)")
        }
        return rows
    }

    /// Checks the credentials of a REGISTER.
    ///
    /// - Returns: the bytes of the response that refuses the REGISTER; `nil` if the password is right.
    private mutating func authenticate(_ request: SIPRequest, _ user: String, now: Instant) -> [UInt8]? {
        guard let credentials = request.authorization.first(where: { $0.realm.string == behaviour.realm }) else {
            return challenge(request, stale: false, now: now)
        }
        let nonce = credentials.nonce.string
        guard !behaviour.bindsNonces || owners[nonce] == user else {
            return challenge(request, stale: behaviour.marksStale, now: now)
        }
        guard !behaviour.alwaysStale, let issued = nonces[nonce], now - issued <= behaviour.nonceLife else {
            return challenge(request, stale: behaviour.marksStale, now: now)
        }
        if let text = credentials.nonceCount, behaviour.offersQop {
            let count = UInt32(text.string, radix: 16) ?? 0
            guard count > counts[nonce, default: 0] else {
                return challenge(request, stale: behaviour.marksStale, now: now)
            }
            counts[nonce] = count
        }
        let algorithm = credentials.algorithm.flatMap { DigestAlgorithm(rawValue: $0.string) } ?? .md5
        usedAlgorithms.append(algorithm.rawValue)
        if let password = passwords[user], behaviour.algorithms.contains(algorithm) {
            let owner = DigestUser(
                name: ByteString(user), realm: ByteString(behaviour.realm), password: ByteString(password),
                algorithms: [algorithm], functions: .forTests)
            let expected = DigestFunctions.forTests.response(
                to: credentials, algorithm, method: .register, ha1: owner.ha1[algorithm]?.array ?? [])
            if ByteString(expected) == credentials.response, credentials.uri == request.uri.text {
                wrongPasswords[user] = nil
                return nil
            }
        } else if passwords[user] == nil {
            return respond(request, 404, [])
        }
        wrongPasswords[user, default: 0] += 1
        return challenge(request, stale: false, now: now)
    }

    private mutating func challenge(_ request: SIPRequest, stale: Bool, now: Instant) -> [UInt8] {
        nextNonce += 1
        let nonce = "n\(nextNonce)-0123456789abcdef0123456789abcdef"
        if nonces.count > 4000 { nonces = nonces.filter { now - $0.value <= behaviour.nonceLife } }
        nonces[nonce] = now
        owners[nonce] = request.to.uri.user?.percentDecoded().string
        let rows = behaviour.algorithms.map { algorithm in
            "WWW-Authenticate: Digest realm=\"\(behaviour.realm)\", nonce=\"\(nonce)\", opaque=\"o\\\"p\""
                + (algorithm == .md5 ? "" : ", algorithm=\(algorithm.rawValue)")
                + (behaviour.offersQop ? ", qop=\"auth\"" : "") + (stale ? ", stale=true" : "")
        }
        return respond(request, 401, rows)
    }

    private func respond(_ request: SIPRequest, _ status: UInt16, _ rows: [String]) -> [UInt8] {
        let head =
            "SIP/2.0 \(status) X\r\nVia: \(request.via.text)\r\nFrom: \(request.frame.firstValue(of: .from)?.string ?? "")\r\n"
            + "To: \(request.frame.firstValue(of: .to)?.string ?? "");tag=p\r\nCall-ID: \(request.callID)\r\n"
            + "CSeq: \(request.cseq.number) REGISTER\r\n"
        return Array((head + rows.map { $0 + "\r\n" }.joined() + "Content-Length: 0\r\n\r\n").utf8)
    }
}
