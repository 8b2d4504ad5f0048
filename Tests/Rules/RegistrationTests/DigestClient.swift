import Addressing
import Bytes
import Crypto
import Registration
import SIPGrammar
import Synchronization
import Testing
import Timekeeping

/// Counts the computed hashes, so that a test can compare amounts of work without a clock.
final class HashCounter: Sendable {
    private let bytes = Atomic<Int>(0)
    private let calls = Atomic<Int>(0)

    func hash(_ algorithm: DigestAlgorithm, _ input: [UInt8]) -> [UInt8] {
        bytes.add(input.count, ordering: .relaxed)
        calls.add(1, ordering: .relaxed)
        return hashing(algorithm).digest(of: input)
    }

    var total: [Int] { [calls.load(ordering: .relaxed), bytes.load(ordering: .relaxed)] }
}

func hashing(_ algorithm: DigestAlgorithm) -> HashAlgorithm {
    switch algorithm {
    case .md5: .md5
    case .sha256: .sha256
    case .sha512_256: .sha512_256
    }
}

extension DigestFunctions {
    static func real(counter: HashCounter = HashCounter(), key: UInt8 = 1) -> DigestFunctions {
        DigestFunctions(hash: counter.hash) { message in
            // A simple keyed hash is enough here, because no test attacks it.
            HashAlgorithm.sha256.digest(of: Array(repeating: key, count: 32) + message)
        }
    }
}

/// A phone's user name and password, and its answers to challenges.
struct DigestClient {
    var name = "bob"
    var password = "s3cret"
    var algorithm: DigestAlgorithm? = .sha256
    var qop: String? = "auth"
    var uri = "sip:pn.test"
    var method = "REGISTER"

    /// Answers a challenge with the value of an Authorization field.
    func answer(_ challenge: [AddedField], count: Int = 1, cnonce: String = "c1", realm: String? = nil) -> String {
        answer(
            nonce: Self.nonce(of: challenge), realm: realm ?? "pn.test", count: String(count, radix: 16), cnonce: cnonce
        )
    }

    func answer(nonce: String, realm: String, count: String, cnonce: String) -> String {
        let nc = String(repeating: "0", count: max(0, 8 - count.count)) + count
        let ha1 = hash("\(name):\(realm):\(password)")
        let ha2 = hash("\(method):\(uri)")
        let middle = qop.map { "\(nc):\(cnonce):\($0):" } ?? ""
        let response = hash("\(ha1):\(nonce):\(middle)\(ha2)")
        var row = "Authorization: Digest username=\"\(name)\", realm=\"\(realm)\", nonce=\"\(nonce)\", uri=\"\(uri)\""
        row += ", response=\"\(response)\""
        if let algorithm { row += ", algorithm=\(algorithm.rawValue)" }
        if let qop { row += ", qop=\(qop), nc=\(nc), cnonce=\"\(cnonce)\"" }
        return row
    }

    static func nonce(of challenge: [AddedField]) -> String {
        let text = challenge.first?.value.string ?? ""
        let parts = text.split(separator: "nonce=\"")
        return parts.count > 1 ? String(parts[1].prefix { $0 != "\"" }) : ""
    }

    private func hash(_ text: String) -> String {
        String(decoding: hashing(algorithm ?? .md5).hexDigest(of: Array(text.utf8)), as: UTF8.self)
    }
}

/// An authenticator for the realm `pn.test` with the users bob and eve, and a clock.
struct Gate {
    var authenticator: DigestAuthenticator
    var users = UserDirectory()
    var now = Instant(nanoseconds: 5_000_000_000_000)
    /// How long the authenticator checks no passwords, because too many were wrong; `nil` if it checks them.
    var wait: Duration?

    init(_ settings: DigestSettings = DigestSettings(), functions: DigestFunctions = .real()) {
        authenticator = DigestAuthenticator(settings: settings, functions: functions)
        for (name, password) in [("bob", "s3cret"), ("eve", "evil")] {
            users.add(
                DigestUser(
                    name: ByteString(name), realm: ByteString("pn.test"), password: ByteString(password),
                    algorithms: DigestAlgorithm.allCases, functions: functions))
        }
    }

    mutating func challenge(
        stale: Bool = false, userAgent: String? = "Phone 1", for holder: NonceHolder = Self.holder(of: .phone())
    ) -> [AddedField] {
        let rows = userAgent.map { ["User-Agent: \($0)"] } ?? []
        guard let request = try? registerRequest(contacts: [], headers: rows) else { return [] }
        return authenticator.challenge(
            realm: Realm(ByteString("pn.test")), stale: stale, as: .registrar, of: request, for: holder, users: users,
            now: now
        )
    }

    static func holder(of flow: Flow) -> NonceHolder { .source(flow.remote.address) }

    /// Checks an answer, and returns the user's name if it is right.
    mutating func check(
        _ rows: String..., user: String = "bob", contacts: [String] = ["<sip:bob@10.0.0.5>"], callID: String = "c",
        cseq: Int = 2, on flow: Flow = .phone()
    ) throws -> Outcome {
        let request = try registerRequest(contacts: contacts, user: user, callID: callID, cseq: cseq, headers: rows)
        return check(request, on: flow)
    }

    mutating func check(_ request: SIPRequest, on flow: Flow = .phone()) -> Outcome {
        let owner = AddressOfRecord(request.to.uri)?.user
        let verdict = authenticator.check(
            request, as: .registrar, realm: Realm(ByteString("pn.test")), owner: owner, on: flow,
            from: Self.holder(of: flow),
            users: users, now: now
        ) { [wait] _ in wait }
        switch verdict {
        case .authenticated(let user, _): return .passed(user.name.string)
        case .challenge(.stale): return .stale
        case .challenge(.nothingShown): return .challenged
        case .challenge(.wrong), .challenge(.wrongForBinding): return .wrong
        case .forbidden: return .forbidden
        case .limited: return .limited
        case .asking, .unavailable, .awaitingKeys, .challenge(.badToken), .challenge(.tokenInClear): return .elsewhere
        }
    }

    enum Outcome: Equatable {
        case passed(String)
        case challenged, wrong, stale, forbidden, limited, elsewhere
    }
}
