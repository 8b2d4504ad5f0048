import Bytes
import SIPGrammar
import Testing
import Timekeeping

@testable import Registration

@Suite("Digest authentication (RFC 7616, RFC 8760)")
struct DigestTests {
    // MARK: Challenge

    @Test func `one challenge for each algorithm, the strongest first, all with one nonce`() {
        var gate = Gate()
        let fields = gate.challenge()
        #expect(fields.map { "\($0.name)" } == ["WWW-Authenticate", "WWW-Authenticate"])
        let texts = fields.map(\.value.string)
        #expect(texts[0].contains("algorithm=SHA-256,") && texts[1].contains("algorithm=MD5,"))
        #expect(texts.allSatisfy { $0.hasPrefix("Digest realm=\"pn.test\", ") && $0.contains("qop=\"auth\"") })
        #expect(texts.allSatisfy { !$0.contains("opaque") && !$0.contains("stale") })
        #expect(DigestClient.nonce(of: [fields[0]]) == DigestClient.nonce(of: [fields[1]]))
        #expect(gate.challenge(stale: true).allSatisfy { $0.value.string.hasSuffix(", stale=true") })
    }

    @Test func `every nonce is another`() {
        var gate = Gate()
        let nonces = (0..<100).map { _ in DigestClient.nonce(of: gate.challenge()) }
        #expect(Set(nonces).count == 100)
    }

    @Test func `a proxy uses its own header fields`() throws {
        var gate = Gate()
        let request = try registerRequest(contacts: [], headers: ["User-Agent: Phone 1"])
        let fields = gate.authenticator.challenge(
            realm: Realm(ByteString("a\"b")), stale: false, as: .proxy, of: request, for: .trusted, users: gate.users,
            now: gate.now)
        #expect(fields.map { "\($0.name)" } == ["Proxy-Authenticate", "Proxy-Authenticate"])
        #expect(fields.first?.value.string.hasPrefix("Digest realm=\"a\\\"b\", ") == true)
    }

    @Test(arguments: [
        (nil, ["MD5"]), ("baresip v1.0.0 (x86_64/linux)", ["MD5"]), ("BARESIP V0.6", ["MD5"]), ("sipp", ["MD5"]),
        ("baresip v3.0.0", ["SHA-256", "MD5"]), ("Linphone/5.1", ["SHA-256", "MD5"]), ("", ["SHA-256", "MD5"]),
    ])
    func `old clients are offered MD5 alone`(userAgent: String?, expected: [String]) {
        var gate = Gate()
        #expect(algorithms(gate.challenge(userAgent: userAgent)) == expected)
    }

    @Test func `if MD5 is not allowed, it is never offered`() {
        var settings = DigestSettings()
        settings.algorithms = [.sha256]
        var gate = Gate(settings)
        #expect(algorithms(gate.challenge(userAgent: nil)) == ["SHA-256"])
    }

    @Test func `an algorithm that one user has no hash for is never offered`() {
        var settings = DigestSettings()
        settings.algorithms = DigestAlgorithm.allCases
        var gate = Gate(settings)
        #expect(algorithms(gate.challenge()) == ["SHA-512-256", "SHA-256", "MD5"])
        let old = DigestUser(
            name: ByteString("old"), realm: ByteString("elsewhere"), password: ByteString("x"),
            algorithms: [.sha256, .md5], functions: .real())
        gate.users.add(old)
        #expect(algorithms(gate.challenge()) == ["SHA-256", "MD5"])
        gate.users.add(
            DigestUser(
                name: old.name, realm: old.realm, password: ByteString("x"), algorithms: DigestAlgorithm.allCases,
                functions: .real()))
        #expect(algorithms(gate.challenge()) == ["SHA-512-256", "SHA-256", "MD5"])
        gate.users.add(old)
        gate.users.remove(name: old.name, realm: old.realm)
        #expect(algorithms(gate.challenge()) == ["SHA-512-256", "SHA-256", "MD5"])
    }

    private func algorithms(_ fields: [AddedField]) -> [String] {
        fields.compactMap { field in
            field.value.string.split(separator: "algorithm=").dropFirst().first.map { String($0.prefix { $0 != "," }) }
        }
    }

    @Test func `SHA-512-256 is answered and checked`() throws {
        var settings = DigestSettings()
        settings.algorithms = DigestAlgorithm.allCases
        var gate = Gate(settings)
        var client = DigestClient()
        client.algorithm = .sha512_256
        #expect(try gate.check(client.answer(gate.challenge())) == .passed("bob"))
        client.password = "guess"
        #expect(try gate.check(client.answer(gate.challenge())) == .wrong)
    }

    // MARK: Answers

    @Test(arguments: [DigestAlgorithm.sha256, .md5, nil])
    func `the right password passes, another does not`(algorithm: DigestAlgorithm?) throws {
        var gate = Gate()
        var client = DigestClient()
        client.algorithm = algorithm
        #expect(try gate.check(client.answer(gate.challenge())) == .passed("bob"))
        client.password = "S3cret"
        #expect(try gate.check(client.answer(gate.challenge())) == .wrong)
    }

    @Test func `without credentials, and for another realm, there is a challenge`() throws {
        var gate = Gate()
        #expect(try gate.check() == .challenged)
        #expect(try gate.check(DigestClient().answer(gate.challenge(), realm: "other")) == .challenged)
        #expect(try gate.check("Authorization: Basic Ym9iOnMzY3JldA==") == .challenged)
    }

    @Test(arguments: [
        (DigestAlgorithm.md5, "b50bfb5aa0625225d558a2b7899c0558"),
        (.sha256, "187afa7788f7e1aa144ab74e549a6372c9344d9d1d84031b7832084ed3e7f291"),
        (.sha512_256, "63f84df0d06dd299469fb38b83d8192b96fb3ce9bc18a24b9eb7bd182004a64c"),
    ])
    func `known answers of a REGISTER`(algorithm: DigestAlgorithm, response: String) throws {
        let request = try readRequest(
            """
            REGISTER sip:pbx.example.net SIP/2.0\r
            Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:alice@pbx.example.net>;tag=1\r
            To: <sip:alice@pbx.example.net>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r
            Authorization: Digest username="alice", realm="pbx.example.net", nonce="nonce-1", nc=00000001,\r
             cnonce="cn1", qop=auth, uri="sip:pbx.example.net", algorithm=\(algorithm.rawValue), response="x"\r
            Content-Length: 0\r\n\r\n
            """)
        let credentials = try #require(request.authorization.first)
        #expect(expected(credentials, algorithm, method: .register, user: ("alice", "s3cret")) == response)
    }

    /// Tests the values of RFC 7616 section 3.9.1.
    @Test(arguments: [
        (DigestAlgorithm.md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (.sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ])
    func `the answers of the RFC`(algorithm: DigestAlgorithm, response: String) {
        let credentials = DigestCredentials(
            username: ByteString("Mufasa"), realm: ByteString("http-auth@example.org"),
            nonce: ByteString("7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"), uri: ByteString("/dir/index.html"),
            response: .empty, algorithm: nil, qop: ByteString("auth"), nonceCount: ByteString("00000001"),
            cnonce: ByteString("f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"))
        let user = ("Mufasa", "Circle of Life")
        #expect(expected(credentials, algorithm, method: .other(ByteString("GET")), user: user) == response)
    }

    private func expected(
        _ credentials: DigestCredentials, _ algorithm: DigestAlgorithm, method: Method, user: (String, String)
    ) -> String {
        let user = DigestUser(
            name: ByteString(user.0), realm: credentials.realm, password: ByteString(user.1), algorithms: [algorithm],
            functions: .real())
        let response = DigestFunctions.real().response(
            to: credentials, algorithm, method: method, ha1: user.ha1[algorithm]?.array ?? [])
        return String(decoding: response, as: UTF8.self)
    }

    @Test func `a response in other letters, or too short, is wrong`() throws {
        var gate = Gate()
        let row = DigestClient().answer(gate.challenge())
        let response = try #require(row.split(separator: "response=\"").last?.prefix { $0 != "\"" })
        for other in [response.uppercased(), (response.first == "0" ? "1" : "0") + response.dropFirst()] {
            #expect(try gate.check(row.replacing(response, with: other)) == .wrong)
        }
        #expect(try gate.check(row.replacing(response, with: response.dropLast())) == .challenged)
        #expect(try gate.check(row) == .passed("bob"))
    }

    @Test(arguments: ["sip:pn.test:5060", "sip:PN.test;transport=tcp", "sip:pn.test"])
    func `the uri may differ in port, case and parameters`(uri: String) throws {
        var gate = Gate()
        #expect(try gate.check(DigestClient(uri: uri).answer(gate.challenge())) == .passed("bob"))
    }

    @Test func `a nonce may be used again with a higher count`() throws {
        var gate = Gate()
        let challenge = gate.challenge()
        for (count, cseq) in [(1, 2), (2, 3), (7, 4)] {
            #expect(try gate.check(DigestClient().answer(challenge, count: count), cseq: cseq) == .passed("bob"))
        }
        #expect(try gate.check(DigestClient().answer(challenge, count: 6), cseq: 5) == .stale)
    }

    @Test func `a retransmission passes`() throws {
        var gate = Gate()
        let row = DigestClient().answer(gate.challenge())
        #expect(try gate.check(row) == .passed("bob"))
        #expect(try gate.check(row) == .passed("bob"))
    }

    @Test func `an old nonce is stale, so that the phone need not ask its user`() throws {
        var gate = Gate()
        let row = DigestClient().answer(gate.challenge())
        gate.now = gate.now + .seconds(60)
        #expect(try gate.check(row) == .passed("bob"))
        gate.now = gate.now + .milliseconds(1)
        #expect(try gate.check(DigestClient().answer(gate.challenge(), count: 1), cseq: 9) == .passed("bob"))
        #expect(try gate.check(row) == .stale)
    }

    // MARK: T6

    @Test(arguments: Replay.allCases)
    func `a captured answer is good for nothing else`(replay: Replay) throws {
        var gate = Gate()
        let challenge = gate.challenge()
        let captured = DigestClient().answer(challenge, count: 5)
        #expect(try gate.check(captured, cseq: 2) == .passed("bob"))
        let outcome: Gate.Outcome
        switch replay {
        case .fromElsewhere: outcome = try gate.check(captured, cseq: 2, on: .phone(66))
        case .withNewCSeq: outcome = try gate.check(captured, cseq: 3)
        case .withNewCallID: outcome = try gate.check(captured, callID: "mine", cseq: 2)
        case .withHigherCount:
            outcome = try gate.check(captured.replacing("nc=00000005", with: "nc=00000006"), cseq: 3)
        case .forAnotherURI:
            outcome = try gate.check(captured.replacing("uri=\"sip:pn.test\"", with: "uri=\"sip:other.test\""), cseq: 3)
        case .afterItsTime:
            gate.now = gate.now + .seconds(61)
            outcome = try gate.check(captured, cseq: 2)
        case .afterRestart:
            var other = Gate(functions: .real(key: 2))
            other.now = gate.now
            outcome = try other.check(captured, cseq: 2)
        case .withAnotherNonce:
            let nonce = DigestClient.nonce(of: challenge)
            let fresh = DigestClient.nonce(of: gate.challenge())
            outcome = try gate.check(captured.replacing(nonce, with: fresh), cseq: 3)
        case .asAnotherUser:
            outcome = try gate.check(captured.replacing("\"bob\"", with: "\"eve\""), user: "eve", cseq: 3)
        case .withAnotherContact:
            outcome = try gate.check(captured, contacts: ["<sip:bob@203.0.113.66>"], cseq: 2)
        case .withMoreContacts:
            outcome = try gate.check(captured, contacts: ["<sip:bob@10.0.0.5>", "<sip:eve@203.0.113.66>"], cseq: 2)
        }
        #expect(outcome == .stale || outcome == .wrong || outcome == .challenged)
    }

    enum Replay: CaseIterable {
        case fromElsewhere, withNewCSeq, withNewCallID, withHigherCount, forAnotherURI, afterItsTime, afterRestart
        case withAnotherNonce, asAnotherUser, withAnotherContact, withMoreContacts
    }

    @Test func `an invented nonce is not accepted`() throws {
        var gate = Gate()
        let nonce = DigestClient.nonce(of: gate.challenge())
        let forged = (nonce.first == "0" ? "1" : "0") + nonce.dropFirst()
        for nonce in [
            forged, String(nonce.dropLast(2)), nonce.uppercased() + "", "", "awD2PmsA9RJdC7eZAw9QO3vPnwV8B7m9",
        ] {
            let row = DigestClient().answer(nonce: nonce, realm: "pn.test", count: "1", cnonce: "x")
            #expect(try gate.check(row) != .passed("bob"))
        }
    }

    @Test func `an algorithm that was not offered is refused, even with the right password`() throws {
        var settings = DigestSettings()
        settings.algorithms = [.sha256]
        var gate = Gate(settings)
        for algorithm in [DigestAlgorithm.md5, .sha512_256, nil] {
            var client = DigestClient()
            client.algorithm = algorithm
            #expect(try gate.check(client.answer(gate.challenge())) == .challenged)
        }
    }

    @Test(arguments: ["0", "00000000", "1", "0000000g", "100000001"])
    func `an invalid count is refused`(count: String) throws {
        var gate = Gate()
        let row = DigestClient().answer(gate.challenge()).replacing("nc=00000001", with: "nc=\(count)")
        #expect(try gate.check(row) == .challenged)
    }

    // MARK: T8

    @Test func `a nonce is good for the address that it was sent to, on any port`() throws {
        var gate = Gate()
        let row = DigestClient().answer(gate.challenge())
        #expect(try gate.check(row, on: .phone(66)) == .stale)
        #expect(try gate.check(row) == .passed("bob"))
        let edge = DigestClient().answer(gate.challenge(for: .trusted))
        #expect(try gate.check(edge) == .stale)
    }

    @Test func `no password is hashed for a foreign nonce, or within the limit`() throws {
        let counter = HashCounter()
        var gate = Gate(functions: .real(counter: counter))
        let before = counter.total
        #expect(try gate.check(DigestClient().answer(gate.challenge()), on: .phone(66)) == .stale)
        gate.wait = .seconds(3)
        #expect(try gate.check(DigestClient().answer(gate.challenge())) == .limited)
        #expect(counter.total == before)
    }

    @Test func `one request is one guess, with any number of answers`() throws {
        let counter = HashCounter()
        var gate = Gate(functions: .real(counter: counter))
        let challenge = gate.challenge()
        let wrong = DigestClient(password: "guess").answer(challenge)
        let before = counter.total[0]
        #expect(try gate.check(wrong, DigestClient().answer(challenge, count: 2)) == .wrong)
        #expect(counter.total[0] - before == 2)
    }

    // MARK: Without qop

    @Test func `an answer without qop is refused`() throws {
        var gate = Gate()
        #expect(try gate.check(DigestClient(qop: nil).answer(gate.challenge())) == .challenged)
        #expect(try gate.check(DigestClient(qop: "auth-int").answer(gate.challenge())) == .challenged)
    }

    @Test func `or, when allowed, is good for one request`() throws {
        var settings = DigestSettings()
        settings.allowsMissingQop = true
        var gate = Gate(settings)
        let row = DigestClient(qop: nil).answer(gate.challenge())
        #expect(try gate.check(row) == .passed("bob"))
        #expect(try gate.check(row) == .passed("bob"))
        #expect(try gate.check(row, cseq: 3) == .stale)
    }

    // MARK: Whose registration

    @Test func `no user can register for another`() throws {
        var gate = Gate()
        let eve = DigestClient(name: "eve", password: "evil")
        #expect(try gate.check(eve.answer(gate.challenge()), user: "bob") == .forbidden)
        #expect(try gate.check(eve.answer(gate.challenge()), user: "nobody") == .forbidden)
        #expect(try gate.check(eve.answer(gate.challenge()), user: "eve") == .passed("eve"))
    }

    // MARK: T7

    @Test(arguments: [DigestAlgorithm.sha256, .md5])
    func `an unknown user costs the same work and gets the same answer`(algorithm: DigestAlgorithm) throws {
        var work: [[Int]] = []
        var answers: [Int] = []
        for name in ["bob", "bab"] {
            let counter = HashCounter()
            var gate = Gate(functions: .real(counter: counter))
            let before = counter.total
            let client = DigestClient(name: name, password: "wrong", algorithm: algorithm)
            #expect(try gate.check(client.answer(gate.challenge()), user: name) == .wrong)
            work.append(zip(counter.total, before).map { $0 - $1 })
            answers.append(gate.challenge().reduce(0) { $0 + $1.value.count })
        }
        #expect(work[0] == work[1] && work[0][0] == 2)
        #expect(answers[0] == answers[1])
    }

    @Test func `a plain password is checked with the same work for every user`() {
        var work: [[Int]] = []
        for (name, password, isRight) in [("bob", "s3cret", true), ("bob", "wrong!", false), ("bab", "s3cret", false)] {
            let counter = HashCounter()
            let gate = Gate(functions: .real(counter: counter))
            let before = counter.total
            #expect(
                gate.authenticator.isPassword(
                    ByteString(password), of: ByteString(name), realm: Realm(ByteString("pn.test")), users: gate.users)
                    == isRight)
            work.append(zip(counter.total, before).map { $0 - $1 })
        }
        #expect(Set(work).count == 1 && work[0][0] > 0)
    }

    @Test(arguments: [
        ([DigestAlgorithm.sha256], [DigestAlgorithm.sha256, .md5], true), ([.md5], [.sha256, .md5], true),
        ([.sha256], [.sha256], true), ([.sha256], [.md5], false), ([], [.sha256, .md5], false),
    ])
    func `a plain password is compared with any hash that exists`(
        stored: [DigestAlgorithm], offered: [DigestAlgorithm], isRight: Bool
    ) {
        var settings = DigestSettings()
        settings.algorithms = offered
        let gate = Gate(settings)
        let user = DigestUser(
            name: ByteString("ann"), realm: ByteString("pn.test"), password: ByteString("s3cret"), algorithms: stored,
            functions: .real())
        var users = UserDirectory()
        users.add(user)
        for (password, expected) in [("s3cret", isRight), ("wrong!", false), ("", false)] {
            #expect(
                gate.authenticator.isPassword(
                    ByteString(password), of: ByteString("ann"), realm: Realm(ByteString("pn.test")), users: users)
                    == expected)
        }
    }

    // MARK: Limits

    @Test func `the memory of nonces is limited, and forgotten ones are stale`() throws {
        var settings = DigestSettings()
        settings.nonceMemory = 8
        var gate = Gate(settings)
        let first = gate.challenge()
        #expect(try gate.check(DigestClient().answer(first), cseq: 2) == .passed("bob"))
        for cseq in 3...40 {
            #expect(try gate.check(DigestClient().answer(gate.challenge()), cseq: cseq) == .passed("bob"))
        }
        #expect(gate.authenticator.ledger.count <= 8)
        #expect(try gate.check(DigestClient().answer(first), cseq: 2) == .stale)
        #expect(try gate.check(DigestClient().answer(first, count: 2), cseq: 50) == .stale)
        #expect(try gate.check(DigestClient().answer(gate.challenge()), cseq: 51) == .passed("bob"))
    }

    @Test func `answers are forgotten when their challenges are out of time`() throws {
        var gate = Gate()
        for cseq in 2...20 {
            #expect(try gate.check(DigestClient().answer(gate.challenge()), cseq: cseq) == .passed("bob"))
        }
        #expect(gate.authenticator.ledger.count == 19)
        for cseq in 21...22 {
            gate.now = gate.now + .seconds(61)
            #expect(try gate.check(DigestClient().answer(gate.challenge()), cseq: cseq) == .passed("bob"))
        }
        #expect(gate.authenticator.ledger.count == 2)
    }

    // MARK: Directory

    @Test func `users are kept by name and realm, and never printed with their secret`() {
        var users = UserDirectory()
        let user = DigestUser(
            name: ByteString("bob"), realm: ByteString("r"), password: ByteString("s3cret"), algorithms: [.md5],
            functions: .real())
        users.add(user)
        #expect(users.user(named: ByteString("bob"), realm: ByteString("r")) == user)
        #expect(users.user(named: ByteString("Bob"), realm: ByteString("r")) == nil)
        #expect(users.user(named: ByteString("bob"), realm: ByteString("q")) == nil)
        #expect("\(user)" == "bob in r")
        #expect(users.remove(name: ByteString("bob"), realm: ByteString("r")) == user)
        #expect(users.user(named: ByteString("bob"), realm: ByteString("r")) == nil)
    }
}
