import Addressing
import Bytes
import Registration
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

/// A test bench with a `UserCache`, a clock, and the queries that the sources have not answered yet.
final class UserScene {
    var cache: UserCache
    private(set) var now = Instant(nanoseconds: 1_000_000_000)
    private(set) var questions: [UserQuestion] = []
    private(set) var settled: [AddressOfRecord] = []
    private(set) var events: [UserCache.SourceEvent] = []

    static let realm = ByteString("example.net")
    static let phone = UserCache.Asker.source(IPAddress(v4: 0xc000_0201))

    init(_ change: (inout UserRules) -> Void = { _ in }) {
        var rules = UserRules()
        rules.sources = [UserRules.Source(name: "pbx", parallel: 4)]
        change(&rules)
        cache = UserCache(rules, algorithms: [.sha256, .md5], functions: .forTests)
    }

    static func aor(_ name: String, _ domain: String = "example.net") -> AddressOfRecord {
        AddressOfRecord(user: ByteString(name), host: ByteString(domain))
    }

    /// Looks for a user in the cache, and returns the result as text.
    @discardableResult
    func find(
        _ name: String, by asker: UserCache.Asker = phone, _ wish: UserCache.Wish = .any,
        domain: String = "example.net"
    ) -> String {
        defer { take() }
        switch cache.find(Self.aor(name, domain), realm: Self.realm, for: asker, wish, now: now) {
        case .known(let user, let mayRefuse): return "\(user.name)\(mayRefuse ? "" : " of old")"
        case .unknown: return "unknown"
        case .asking: return "asking"
        case .away: return "away"
        }
    }

    static func password(_ text: String) -> UserAnswer {
        var secrets = UserSecrets()
        secrets.password = ByteString(text)
        return .found(secrets)
    }

    static func hash(_ text: String, _ algorithm: DigestAlgorithm = .md5) -> UserAnswer {
        var secrets = UserSecrets()
        secrets.ha1[algorithm] = ByteString(text)
        return .found(secrets)
    }

    static let goneAway = UserAnswer.away(.silent)

    /// Answers the oldest open query on behalf of its source.
    func answer(_ answer: UserAnswer) {
        guard !questions.isEmpty else {
            Issue.record("nothing was asked")
            return
        }
        self.answer(questions.removeFirst(), answer)
    }

    func answer(_ question: UserQuestion, _ answer: UserAnswer) {
        cache.answered(question.ticket, answer, now: now)
        take()
    }

    /// Removes and returns the open queries, which the test then answers itself.
    func takeQuestions() -> [UserQuestion] {
        defer { questions = [] }
        return questions
    }

    func takeSettled() -> [String] {
        defer { settled = [] }
        return settled.map(\.user.string)
    }

    func takeEvents() -> [UserCache.SourceEvent] {
        defer { events = [] }
        return events
    }

    func pass(_ time: Duration) {
        let end = now + time
        while let next = cache.nextDeadline, next <= end {
            now = max(next, now)
            cache.deadlineReached(now: now)
            take()
        }
        now = end
    }

    private func take() {
        questions += cache.takeOrders()
        settled += cache.takeSettled()
        events += cache.takeEvents()
    }
}

@Suite struct `Users of other sources` {
    // MARK: Answers

    @Test func `a user is asked for once, and then known`() {
        let scene = UserScene()
        #expect(scene.find("bob") == "asking")
        #expect(
            scene.questions == [
                UserQuestion(
                    ticket: scene.questions[0].ticket, source: 0, name: ByteString("bob"),
                    domain: ByteString("example.net"), realm: UserScene.realm)
            ])
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.takeSettled() == ["bob"])
        #expect(scene.find("bob") == "bob")
        scene.pass(.seconds(299))
        #expect(scene.find("bob") == "bob of old")
        #expect(scene.questions.isEmpty)
        scene.pass(.seconds(2))
        #expect(scene.find("bob") == "asking")
    }

    @Test func `ten requests for one user are one question`() {
        let scene = UserScene()
        for _ in 0..<10 { #expect(scene.find("bob") == "asking") }
        #expect(scene.questions.count == 1)
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.takeSettled() == ["bob"])
        for _ in 0..<10 { #expect(scene.find("bob") == "bob") }
    }

    @Test func `an unknown user is remembered for ten seconds`() {
        let scene = UserScene()
        scene.find("eve")
        scene.answer(.unknown)
        #expect(scene.takeSettled() == ["eve"])
        #expect(scene.find("eve") == "unknown")
        #expect(scene.find("eve", .newer) == "unknown")
        scene.pass(.seconds(11))
        #expect(scene.find("eve") == "asking")
    }

    @Test func `a changed password counts at once, and nobody asks more often than every ten seconds`() throws {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.password("old"))
        // The cache may refuse a password by an answer that is at most ten seconds old.
        #expect(scene.find("bob", .newer) == "bob")
        scene.pass(.seconds(11))
        #expect(scene.find("bob") == "bob of old")
        #expect(scene.find("bob", .newer) == "asking")
        scene.answer(UserScene.password("new"))
        guard
            case .known(let user, mayRefuse: true) = scene.cache.find(
                UserScene.aor("bob"), realm: UserScene.realm, for: UserScene.phone, now: scene.now)
        else {
            Issue.record("bob is not known")
            return
        }
        let other = DigestUser(
            name: ByteString("bob"), realm: UserScene.realm, password: ByteString("new"),
            algorithms: [.sha256, .md5], functions: .forTests)
        #expect(user == other)
    }

    @Test func `a user whom the source removed is unknown after the next question`() {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(301))
        scene.find("bob")
        scene.answer(.unknown)
        #expect(scene.find("bob") == "unknown")
        #expect(scene.find("bob", .last) == "unknown")
        #expect(scene.cache.knownCount == 0)
    }

    @Test(arguments: [
        (UserScene.hash("900150983cd24fb0d6963f7d28e17f72"), "bob"),
        (UserScene.hash("900150983CD24FB0D6963F7D28E17F72"), "bob"),
        (UserScene.hash("900150983cd24fb0d6963f7d28e17f7"), "away"),
        (UserScene.hash("900150983cd24fb0d6963f7d28e17fzz"), "away"),
        (UserScene.hash("900150983cd24fb0d6963f7d28e17f72", .sha256), "away"),
        (UserScene.hash(""), "unknown"), (UserScene.password(""), "unknown"),
        (UserScene.password(String(repeating: "x", count: 10_000_000)), "away"),
        (UserAnswer.found(UserSecrets()), "unknown"), (UserAnswer.unusable(.severalRows), "away"),
    ])
    func `only a whole hash or a password makes a user`(_ answer: UserAnswer, _ found: String) {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(answer)
        #expect(scene.find("bob") == found)
        #expect(scene.questions.isEmpty)
        // A source that gives an unusable answer about one user does not count as away.
        #expect(scene.cache.awayCount == 0)
        #expect(scene.find("alice") == "asking")
    }

    @Test func `a hash for another realm is no use, and an event reports it`() {
        let scene = UserScene()
        scene.find("bob")
        var secrets = UserSecrets()
        secrets.ha1[.md5] = ByteString("900150983cd24fb0d6963f7d28e17f72")
        secrets.realm = ByteString("asterisk")
        scene.answer(.found(secrets))
        #expect(scene.find("bob") == "away")
        guard case .unusable(source: 0, let user, let fault)? = scene.takeEvents().first else {
            Issue.record("no event")
            return
        }
        #expect(user == UserScene.aor("bob"))
        #expect(fault.sentence == "the hash of a user is for realm asterisk, and phones are asked in realm example.net")
    }

    @Test func `a database that compares without case finds no other user`() {
        let scene = UserScene()
        scene.find("BOB")
        var secrets = UserSecrets()
        secrets.password = ByteString("s3cret")
        secrets.name = ByteString("bob")
        scene.answer(.found(secrets))
        #expect(scene.find("BOB") == "unknown")
    }

    @Test func `users of two domains with one realm are two users`() {
        let scene = UserScene()
        scene.find("bob", domain: "a.net")
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.find("bob", domain: "b.net") == "asking")
        #expect(scene.questions.map(\.domain.string) == ["b.net"])
    }

    // MARK: Names

    @Test(arguments: ["", "bob\u{0}", "bob\r\nX: y", String(repeating: "a", count: 256)])
    func `a name that nobody has is not asked for`(_ name: String) {
        let scene = UserScene()
        #expect(scene.find(name) == "unknown")
        #expect(scene.questions.isEmpty && scene.cache.unknownCount == 0)
    }

    @Test func `a name that is no UTF-8 is not asked for`() {
        let scene = UserScene()
        let user = AddressOfRecord(user: ByteString([0x62, 0xff, 0x62]), host: ByteString("example.net"))
        let found = scene.cache.find(user, realm: UserScene.realm, for: UserScene.phone, now: scene.now)
        #expect(found == .unknown)
    }

    @Test func `a name with SQL in it is a name like any other`() {
        let scene = UserScene()
        #expect(scene.find("'; DROP TABLE users; --") == "asking")
        #expect(scene.questions.map(\.name.string) == ["'; DROP TABLE users; --"])
    }

    // MARK: Several sources

    private static func twoSources(_ rules: inout UserRules) {
        rules.sources = [
            UserRules.Source(name: "first"), UserRules.Source(name: "second", domains: [ByteString("example.net")]),
        ]
    }

    @Test func `sources are asked in their order, until one has the user`() {
        let scene = UserScene(Self.twoSources)
        scene.find("bob")
        #expect(scene.questions.map(\.source) == [0])
        scene.answer(.unknown)
        #expect(scene.takeSettled().isEmpty)
        #expect(scene.questions.map(\.source) == [1])
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.takeSettled() == ["bob"])
        #expect(scene.find("bob") == "bob")
    }

    @Test func `a source of other domains is not asked`() {
        let scene = UserScene(Self.twoSources)
        scene.find("bob", domain: "other.net")
        scene.answer(.unknown)
        #expect(scene.find("bob", domain: "other.net") == "unknown")
        #expect(scene.questions.isEmpty)
    }

    @Test func `while the first source is away, the second does not speak for it`() {
        let scene = UserScene(Self.twoSources)
        scene.find("bob")
        scene.answer(UserScene.goneAway)
        #expect(scene.questions.isEmpty)
        #expect(scene.find("bob", .last) == "away")
    }

    @Test func `while the second source is away, nobody is unknown`() {
        let scene = UserScene(Self.twoSources)
        for name in ["bob", "alice"] {
            scene.find(name)
            scene.answer(.unknown)
            if name == "bob" { scene.answer(UserScene.goneAway) }
            #expect(scene.find(name, .last) == "away")
        }
        #expect(scene.questions.isEmpty)
    }

    // MARK: Away and slow

    @Test func `a source that is away refuses strangers at once, and keeps those who are known`() {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(400))
        scene.find("eve")
        scene.answer(UserScene.goneAway)
        #expect(scene.takeEvents() == [.away(source: 0, .silent)])
        #expect(scene.find("eve", .last) == "away")
        #expect(scene.find("eve") == "away")
        #expect(scene.find("bob") == "bob of old")
        // The remembered answer is too old to refuse a password, and the cache cannot query the source of users, so the
        // result is "away".
        #expect(scene.find("bob", .newer) == "away")
        #expect(scene.questions.isEmpty)
    }

    @Test func `the last answer is kept for a day`() {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(86_000))
        scene.find("eve")
        scene.answer(UserScene.goneAway)
        #expect(scene.find("bob") == "bob of old")
        scene.pass(.seconds(401))
        scene.find("bob")
        scene.answer(UserScene.goneAway)
        #expect(scene.find("bob", .last) == "away")
    }

    @Test func `a source that is away is tried by one question at a time, less and less often`() {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.goneAway)
        for pause in [1, 2, 4, 8, 8] {
            scene.pass(.seconds(pause) - .milliseconds(20))
            #expect(scene.find("bob") == "away")
            scene.pass(.milliseconds(30))
            #expect(scene.find("bob") == "asking")
            #expect(scene.find("alice") == "away")
            #expect(scene.questions.count == 1)
            scene.answer(UserScene.goneAway)
        }
        #expect(scene.takeEvents() == [.away(source: 0, .silent)])
        scene.pass(.seconds(9))
        scene.find("bob")
        scene.answer(.unknown)
        #expect(scene.takeEvents() == [.back(source: 0)])
        #expect(scene.find("alice") == "asking")
    }

    @Test func `whoever is known does not wait for a source that is tried again`() {
        let scene = UserScene()
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(400))
        scene.find("eve")
        scene.answer(UserScene.goneAway)
        scene.pass(.seconds(2))
        #expect(scene.find("bob") == "bob of old")
        #expect(scene.questions.map(\.name.string) == ["bob"])
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.takeEvents() == [.away(source: 0, .silent), .back(source: 0)])
        #expect(scene.find("bob") == "bob")
    }

    @Test func `a source that hangs delays for two seconds, once`() {
        let scene = UserScene()
        scene.find("bob")
        scene.pass(.milliseconds(1_900))
        #expect(scene.takeSettled().isEmpty)
        scene.pass(.milliseconds(110))
        #expect(scene.takeSettled() == ["bob"])
        #expect(scene.find("bob", .last) == "away")
        #expect(scene.find("bob") == "away")
        #expect(scene.find("alice") == "away")
        #expect(scene.questions.count == 1)
    }

    @Test func `a known user waits for a source that hangs only until it is known to hang`() {
        let scene = UserScene()
        for name in ["bob", "alice"] {
            scene.find(name)
            scene.answer(UserScene.password("s3cret"))
        }
        scene.pass(.seconds(400))
        #expect(scene.find("bob") == "asking")
        scene.pass(.seconds(2) + .milliseconds(10))
        #expect(scene.takeSettled() == ["bob", "alice", "bob"])
        #expect(scene.find("bob", .last) == "bob of old")
        #expect(scene.find("alice") == "alice of old")
        #expect(scene.questions.count == 1)
    }

    @Test func `a late answer counts for the next request`() {
        let scene = UserScene()
        scene.find("bob")
        scene.pass(.seconds(4))
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.find("bob") == "bob")
        #expect(scene.takeEvents() == [.away(source: 0, .silent), .back(source: 0)])
    }

    @Test func `an answer that comes too late is dropped, and so is a second answer`() {
        let scene = UserScene()
        scene.find("bob")
        let question = scene.takeQuestions()[0]
        scene.pass(.seconds(11))
        scene.answer(question, UserScene.password("s3cret"))
        #expect(scene.cache.knownCount == 0 && scene.cache.openQuestions == 0)
        scene.pass(.seconds(10))
        scene.find("bob")
        let next = scene.takeQuestions()[0]
        scene.answer(next, .unknown)
        scene.answer(next, UserScene.password("s3cret"))
        #expect(scene.find("bob") == "unknown")
        scene.answer(
            UserQuestion(
                ticket: UserTicket(999), source: 7, name: ByteString("x"), domain: ByteString("y"),
                realm: UserScene.realm), UserScene.password("s3cret"))
    }

    @Test func `one question that hangs among others does not make the source away`() {
        let scene = UserScene()
        scene.find("slow")
        let slow = scene.takeQuestions()[0]
        scene.pass(.seconds(1))
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(20))
        #expect(scene.takeEvents().isEmpty)
        #expect(scene.find("alice") == "asking")
        scene.answer(slow, .unknown)
    }

    @Test func `nobody waits for a question that is late already`() {
        let scene = UserScene()
        scene.find("slow")
        let slow = scene.takeQuestions()[0]
        scene.pass(.seconds(1))
        scene.find("bob")
        scene.answer(UserScene.password("s3cret"))
        scene.pass(.seconds(2))
        #expect(scene.find("slow") == "away")
        scene.answer(slow, UserScene.password("s3cret"))
        #expect(scene.find("slow") == "slow")
    }

    // MARK: Limits

    @Test func `a source has a few questions at a time, and the others wait their turn`() {
        let scene = UserScene()
        for number in 0..<10 { #expect(scene.find("u\(number)") == "asking") }
        #expect(scene.questions.map(\.name.string) == ["u0", "u1", "u2", "u3"])
        scene.answer(.unknown)
        #expect(scene.questions.map(\.name.string) == ["u1", "u2", "u3", "u4"])
        // When the source is away, the cache ends all queries in the queue.
        scene.answer(UserScene.goneAway)
        #expect(scene.takeSettled() == ["u0", "u5", "u6", "u7", "u8", "u9", "u1"])
    }

    @Test func `a question that had no turn for two seconds is given up`() {
        let scene = UserScene()
        for number in 0..<5 { scene.find("u\(number)") }
        for _ in 0..<3 {
            scene.pass(.milliseconds(900))
            scene.answer(.unknown)
            scene.find("v\(scene.now.nanoseconds)")
        }
        #expect(scene.takeSettled().contains("u3"))
        #expect(scene.cache.openQuestions <= 5)
    }

    @Test func `one address has a share of the questions, and phones leave a part to trusted peers`() {
        let scene = UserScene()
        for number in 0..<100 { #expect(scene.find("u\(number)") == "asking") }
        #expect(scene.find("u100") == "away")
        let other = UserCache.Asker.source(IPAddress(v4: 7))
        #expect(scene.find("bob", by: other) == "asking")
        // A second request for the same user waits for the open query, and so does not count as a query of its address.
        #expect(scene.find("bob") == "asking")
        for number in 0..<3000 {
            scene.find("w\(number)", by: .source(IPAddress(v4: UInt32(1000 + number))))
        }
        #expect(scene.cache.openQuestions == 1500)
        #expect(scene.find("carol", by: .trusted) == "asking")
        for number in 0..<3000 { scene.find("t\(number)", by: .trusted) }
        #expect(scene.cache.openQuestions == 2000)
        scene.pass(.seconds(15))
        #expect(scene.cache.openQuestions == 0)
        #expect(scene.find("u100") == "asking")
    }

    @Test func `a flood of unknown names does not push out the known`() {
        let scene = UserScene { $0.remembered = 10 }
        for number in 0..<10 {
            scene.find("bob\(number)")
            scene.answer(UserScene.password("s3cret"))
        }
        for number in 0..<50_000 {
            scene.find("x\(number)", by: .trusted)
            scene.answer(.unknown)
        }
        #expect(scene.cache.knownCount == 10 && scene.cache.unknownCount == 20_000)
        for number in 0..<10 { #expect(scene.find("bob\(number)") == "bob\(number)") }
        // When the table is full, a new user removes the known user with the oldest answer.
        scene.find("alice")
        scene.answer(UserScene.password("s3cret"))
        #expect(scene.cache.knownCount == 10)
        #expect(scene.find("bob0") == "asking")
        #expect(scene.find("bob1") == "bob1")
    }

    @Test func `random events keep the tables small, and every request is settled`() {
        var random = SeededGenerator()
        let scene = UserScene {
            $0.remembered = 20
            Self.twoSources(&$0)
        }
        /// The time since which requests wait for each user.
        var waiting: [String: Instant] = [:]
        var open: [UserQuestion] = []
        for _ in 0..<50_000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let name = "u\(Int.random(in: 0..<60, using: &random))"
                if scene.find(name) == "asking", waiting[name] == nil { waiting[name] = scene.now }
            case 5..<8:
                if let question = open.randomElement(using: &random) {
                    open.removeAll { $0 == question }
                    let answers = [
                        .unknown, UserScene.password("s3cret"), UserScene.goneAway, .unusable(.severalRows),
                        .unknown, UserScene.password("s3cret"),
                    ]
                    if let answer = answers.randomElement(using: &random) { scene.answer(question, answer) }
                }
            case 8: scene.pass(.milliseconds(Int.random(in: 1..<3000, using: &random)))
            default: if !open.isEmpty { open.removeLast() }
            }
            open += scene.takeQuestions()
            for name in scene.takeSettled() { waiting[name] = nil }
            // No request waits longer than two seconds plus one tick of the clock.
            #expect(waiting.values.allSatisfy { scene.now - $0 <= .milliseconds(2_010) })
            #expect(scene.cache.knownCount <= 20 && scene.cache.openQuestions <= 100)
        }
        scene.pass(.seconds(30))
        for name in scene.takeSettled() { waiting[name] = nil }
        #expect(waiting.isEmpty)
        #expect(scene.cache.openQuestions == 0)
    }
}
