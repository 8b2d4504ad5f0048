import AccessLimits
import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests phones whose users are in a source outside the store.
@Suite struct `Users from elsewhere` {
    /// A bench with the user alice in the store, and a source of users `pbx` whose answers come from the test.
    private static func bench(_ change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        .authenticating(users: TestDigest.users("alice")) {
            $0.users.sources = [UserRules.Source(name: "pbx")]
            change(&$0)
        }
    }

    private static func password(_ text: String) -> UserAnswer {
        var secrets = UserSecrets()
        secrets.password = ByteString(text)
        return .found(secrets)
    }

    /// Sends a request, and returns the request with credentials for the challenge.
    private func proved(
        _ bench: EngineBench, _ request: [UInt8], as user: String, password: String? = nil,
        from source: Endpoint = EngineBench.phone
    ) throws -> [UInt8] {
        let challenge = try #require(sentResponse(bench.receive(request, from: source)))
        return TestDigest.answer(challenge, to: request, as: user, password: password)
    }

    /// Answers the engine's queries to the source of users in the given actions, and returns the actions that follow.
    private func answer(_ bench: EngineBench, _ actions: [ProxyAction], _ answer: UserAnswer) -> [ProxyAction] {
        var all: [ProxyAction] = []
        for case .askUser(let question) in actions {
            bench.engine.userAnswered(question.ticket, answer, now: bench.now)
            all += bench.take()
        }
        return all + bench.commitAll(in: all)
    }

    private func statuses(_ actions: [ProxyAction]) -> [String] {
        story(actions).filter { $0.hasSuffix("> phone") }.map { String($0.prefix(3)) }
    }

    // MARK: REGISTER

    @Test func `a REGISTER waits for the source, and is then accepted`() throws {
        let bench = Self.bench()
        // The daemon sends the challenge without a query to the source of users.
        let request = bench.registerText()
        #expect(story(bench.receive(request)) == ["401 register > phone"])
        let asked = try bench.receive(proved(bench, bench.registerText(callID: "r2"), as: "bob"))
        #expect(story(asked) == ["ask bob"])
        #expect(statuses(answer(bench, asked, Self.password("bob".reversed))) == ["200"])
        // The daemon does not ask the source about bob again, because it remembers the source's answer.
        let again = try bench.receive(proved(bench, bench.registerText(callID: "r3", cseq: 3), as: "bob"))
        #expect(!story(again).contains("ask bob"))
        #expect(statuses(again + bench.commitAll(in: again)) == ["200"])
    }

    @Test func `a user of the store is asked for elsewhere only to take as long as an unknown user`() throws {
        let bench = Self.bench()
        let out = bench.receiveProved(bench.registerText(user: "alice"), as: "alice")
        #expect(statuses(out + bench.commitAll(in: out)) == ["200"])
        let wrong = bench.receiveProved(bench.registerText(user: "alice", callID: "r2"), as: "alice", password: "x")
        #expect(story(wrong) == ["ask alice"])
        // The daemon does not accept alice's password from the source, because alice is a user of the store.
        #expect(statuses(answer(bench, wrong, Self.password("x"))) == ["401"])
        let again = bench.receiveProved(bench.registerText(user: "alice", callID: "r3"), as: "alice", password: "x")
        #expect(story(again) == ["401 register > phone"])
    }

    @Test func `while the source is away, a wrong password of the store gets the answer of an unknown user`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(statuses(answer(bench, asked, .away(.silent))) == ["503"])
        let wrong = bench.receiveProved(bench.registerText(user: "alice", callID: "r2"), as: "alice", password: "x")
        #expect(story(wrong) == ["503 register > phone"])
        #expect(bench.engine.figures[.loginFailed] == 1)
    }

    @Test func `an unknown user and a wrong password get the same answer`() throws {
        for answer in [UserAnswer.unknown, Self.password("other")] {
            let bench = Self.bench()
            let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
            #expect(story(asked) == ["ask bob"])
            #expect(statuses(self.answer(bench, asked, answer)) == ["401"])
            #expect(bench.engine.figures[.loginFailed] == 1)
            // If bob tries again within ten seconds, the daemon does not ask the source again.
            let second = try bench.receive(proved(bench, bench.registerText(callID: "r2"), as: "bob"))
            #expect(story(second) == ["401 register > phone"])
        }
    }

    @Test func `another's user: the password of eve does not register bob`() throws {
        let bench = Self.bench()
        let request = bench.registerText()
        let asked = try bench.receive(proved(bench, request, as: "eve"))
        #expect(story(asked) == ["ask eve"])
        #expect(statuses(answer(bench, asked, Self.password("eve".reversed))) == ["403"])
    }

    @Test func `wrong passwords count before the source is asked`() throws {
        let bench = Self.bench()
        var questions = 0
        for number in 0..<30 {
            let out = try bench.receive(
                proved(bench, bench.registerText(callID: "g\(number)"), as: "user\(number)", password: "guess"))
            questions += story(out).count { $0.hasPrefix("ask") }
            _ = answer(bench, out, .unknown)
        }
        #expect(questions == 10)
    }

    @Test func `ten REGISTERs for one user at once are one question, and each is answered`() throws {
        let bench = Self.bench()
        var asked: [ProxyAction] = []
        for number in 0..<10 {
            asked += try bench.receive(proved(bench, bench.registerText(callID: "r\(number)"), as: "bob"))
        }
        #expect(story(asked) == ["ask bob"])
        let out = answer(bench, asked, Self.password("bob".reversed))
        var all = out
        while all.contains(where: { if case .commit = $0 { true } else { false } }) {
            all = bench.commitAll(in: all)
            _ = all
        }
        #expect(bench.engine.figures[.credentialsAccepted] == 10)
        #expect(bench.engine.figures[.userKnown] == 1)
    }

    @Test func `a copy of a REGISTER that waits does not wait itself`() throws {
        let bench = Self.bench()
        let request = try proved(bench, bench.registerText(), as: "bob")
        let asked = bench.receive(request)
        for _ in 0..<3 { #expect(bench.receive(request).isEmpty) }
        #expect(statuses(answer(bench, asked, Self.password("bob".reversed))) == ["200"])
    }

    // MARK: Away

    @Test func `a source that hangs: 503 after two seconds, with Retry-After`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(story(asked) == ["ask bob"])
        #expect(bench.pass(.milliseconds(1_990)).isEmpty)
        let out = bench.pass(.milliseconds(20))
        #expect(story(out) == ["503 register > phone"])
        #expect(try #require(sentResponse(out)).frame.contains(.retryAfter))
        // The next user whom the daemon does not remember gets 503 at once, because the source is away.
        let next = try bench.receive(proved(bench, bench.registerText(callID: "r2"), as: "carol"))
        #expect(story(next) == ["503 register > phone"])
        // A user in the store can register while the source is away.
        let alice = bench.receiveProved(bench.registerText(user: "alice", callID: "a"), as: "alice")
        #expect(statuses(alice + bench.commitAll(in: alice)) == ["200"])
    }

    @Test func `a source that is away: 503 at once, and a late answer serves the next REGISTER`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(statuses(bench.pass(.seconds(3))) == ["503"])
        #expect(answer(bench, asked, Self.password("bob".reversed)).isEmpty)
        let again = try bench.receive(proved(bench, bench.registerText(callID: "r2"), as: "bob"))
        #expect(statuses(again + bench.commitAll(in: again)) == ["200"])
    }

    @Test
    func `while the source is away, whoever is known is served, and a wrong password is neither refused nor let in`()
        throws
    {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(statuses(answer(bench, asked, Self.password("bob".reversed))) == ["200"])
        _ = bench.pass(.seconds(3600))
        let probe = try bench.receive(proved(bench, bench.registerText(callID: "c"), as: "carol"))
        #expect(statuses(answer(bench, probe, .away(.silent))) == ["503"])
        let right = try bench.receive(proved(bench, bench.registerText(callID: "r2", cseq: 3), as: "bob"))
        #expect(statuses(right + bench.commitAll(in: right)) == ["200"])
        let wrong = try bench.receive(proved(bench, bench.registerText(callID: "r3"), as: "bob", password: "guess"))
        #expect(story(wrong) == ["503 register > phone"])
        #expect(bench.engine.figures[.loginFailed] == 1)
        #expect(bench.engine.figures[.userSourcesAway] == 1)
    }

    @Test func `guesses while the source is away are limited like all others`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        _ = answer(bench, asked, Self.password("bob".reversed))
        _ = bench.pass(.seconds(3600))
        let probe = try bench.receive(proved(bench, bench.registerText(callID: "c"), as: "carol"))
        _ = answer(bench, probe, .away(.silent))
        let there = Endpoint(IPAddress(v4: 0xcb00_7101), 5060)
        for number in 0..<20 {
            _ = try bench.receive(
                proved(
                    bench, bench.registerText(callID: "g\(number)", from: there), as: "bob", password: "guess",
                    from: there),
                from: there)
        }
        #expect(bench.engine.figures[.loginFailed] == 10)
    }

    @Test func `a changed password counts at once`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(statuses(answer(bench, asked, Self.password("old"))) == ["401"])
        _ = bench.pass(.seconds(11))
        let again = try bench.receive(proved(bench, bench.registerText(callID: "r2"), as: "bob"))
        #expect(story(again) == ["ask bob"])
        #expect(statuses(answer(bench, again, Self.password("bob".reversed))) == ["200"])
    }

    @Test func `the log says once that the source is away, with the cure, and that it answers again`() throws {
        let sink = MemoryLogSink()
        let log = Log(level: .notice, sink: sink) { UnixTime(seconds: 0) }
        let bench = EngineBench(users: TestDigest.users("alice"), log: log) {
            $0.authenticates = true
            $0.users.sources = [UserRules.Source(name: "pbx")]
        }
        for number in 0..<3 {
            let out = try bench.receive(proved(bench, bench.registerText(callID: "r\(number)"), as: "bob"))
            _ = answer(bench, out, .away(UserFault("the connection failed", cure: "Start it.")))
        }
        _ = bench.pass(.seconds(2))
        let out = try bench.receive(proved(bench, bench.registerText(callID: "z"), as: "bob"))
        _ = answer(bench, out, Self.password("t0psecret\n"))
        let lines = sink.lines.filter { $0.contains("a source of users") }
        #expect(lines.count == 2)
        #expect(lines.first?.contains("users.sources.pbx") == true)
        #expect(lines.first?.contains("the connection failed") == true && lines.first?.contains("Start it.") == true)
        #expect(lines.last?.contains("answers again") == true)
        #expect(!sink.lines.contains { $0.contains("t0psecret") })
    }

    // MARK: Calls, dialogs, connections

    @Test func `an INVITE waits for the source, and goes to the upstream as that user`() throws {
        let bench = Self.bench()
        let asked = try bench.receive(proved(bench, bench.phoneText(), as: "bob"))
        #expect(story(asked) == ["ask bob"])
        let out = answer(bench, asked, Self.password("bob".reversed))
        #expect(story(out) == ["100 invite > phone", "invite > pbx"])
        #expect(sentRequest(out)?.frame.firstValue(of: .pAssertedIdentity)?.string.contains("bob@example.net") == true)
    }

    @Test func `an INVITE whose user nobody can judge gets 503, and explain finds it`() throws {
        let bench = Self.bench()
        _ = try bench.receive(proved(bench, bench.phoneText(), as: "bob"))
        let out = bench.pass(.seconds(3))
        #expect(story(out) == ["503 invite > phone"])
        #expect(bench.engine.figures[.callUsersAway] == 1)
    }

    @Test func `a connection that closes takes its waiting requests along`() throws {
        let bench = Self.bench()
        let flow = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)
        let request = bench.registerText()
        let challenge = try #require(sentResponse(bench.receive(request, on: flow)))
        let asked = bench.receive(TestDigest.answer(challenge, to: request, as: "bob"), on: flow)
        #expect(story(asked) == ["ask bob"])
        bench.engine.flowClosed(flow, now: bench.now)
        _ = bench.take()
        #expect(answer(bench, asked, Self.password("bob".reversed)).isEmpty)
    }

    @Test func `requests of a trusted edge have a transaction while they wait, and end with 503`() throws {
        let bench = Self.bench()
        let request = bench.registerText(from: EngineBench.pbx)
        let asked = try bench.receive(proved(bench, request, as: "bob", from: EngineBench.pbx), from: EngineBench.pbx)
        #expect(story(asked) == ["ask bob"])
        #expect(story(bench.pass(.seconds(3))) == ["503 register > pbx"])
    }

    @Test func `a user who may be elsewhere is not unknown to a caller`() {
        let bench = Self.bench()
        #expect(story(bench.invite(to: "nobody")).contains("480 invite > pbx"))
        let store = EngineBench.authenticating()
        #expect(story(store.invite(to: "nobody")).contains("404 invite > pbx"))
    }

    // MARK: Limits

    @Test func `one address cannot make too many requests wait`() throws {
        let bench = Self.bench { $0.limits.registersPerSource = 0 }
        let there = Endpoint(IPAddress(v4: 0xcb00_7101), 5060)
        var statuses: [String] = []
        for number in 0..<150 {
            let out = try bench.receive(
                proved(
                    bench, bench.registerText(user: "u\(number)", callID: "g\(number)", from: there), as: "u\(number)",
                    from: there), from: there)
            statuses += story(out).filter { !$0.hasPrefix("ask") }.map { String($0.prefix(3)) }
        }
        #expect(statuses == Array(repeating: "503", count: 50))
        // Phones at other addresses do not get 503.
        let out = try bench.receive(proved(bench, bench.registerText(), as: "bob"))
        #expect(!story(out).contains("503 register > phone"))
    }

    @Test func `requests that join a question have a share as well, for each user and each address`() throws {
        let bench = Self.bench { $0.limits.registersPerSource = 0 }
        let there = Endpoint(IPAddress(v4: 0xcb00_7101), 5060)
        var refused: [String: Int] = [:]
        for number in 0..<200 {
            let user = "u\(number % 5)"
            let out = try bench.receive(
                proved(bench, bench.registerText(user: user, callID: "g\(number)", from: there), as: user, from: there),
                from: there)
            refused[user, default: 0] += story(out).count { $0.hasPrefix("503") }
        }
        #expect(refused.values.reduce(0, +) == 100)
        let other = try bench.receive(proved(bench, bench.registerText(user: "u0"), as: "u0"))
        #expect(story(other).isEmpty)
        // At most 32 requests may wait for the answer about one user.
        let crowd = Self.bench { $0.limits.registersPerSource = 0 }
        var statuses: [String] = []
        for number in 0..<40 {
            let out = try crowd.receive(proved(crowd, crowd.registerText(callID: "g\(number)"), as: "bob"))
            statuses += self.statuses(out)
        }
        #expect(statuses == Array(repeating: "503", count: 8))
    }

    @Test func `challenges offer only what the sources have hashes for`() throws {
        let bench = Self.bench()
        let challenge = try #require(sentResponse(bench.receive(bench.registerText(extra: ["User-Agent: New 1"]))))
        let offered = challenge.frame.values(of: .wwwAuthenticate).map(\.string)
        #expect(offered.count == 1 && offered[0].contains("algorithm=MD5"))
        let both = Self.bench { $0.users.sources[0].algorithms = [.md5, .sha256] }
        let fields = try #require(sentResponse(both.receive(both.registerText(extra: ["User-Agent: New 1"]))))
        #expect(fields.frame.values(of: .wwwAuthenticate).count == 2)
    }

    // MARK: HTTP

    @Test func `a login over HTTP waits for the source as well`() {
        let bench = Self.bench()
        func login(_ password: String, hasWaited: Bool = false) -> ProxyEngine.LoginVerdict {
            bench.engine.login(
                ByteString("bob"), in: nil, ByteString(password), from: EngineBench.phone.address,
                hasWaited: hasWaited, now: bench.now)
        }
        #expect(login("s3cret") == .asking(EngineBench.bob))
        bench.engine.loginWaits(LoginTicket(1), for: EngineBench.bob, from: EngineBench.phone.address)
        let asked = bench.take()
        #expect(story(asked) == ["ask bob"])
        #expect(story(answer(bench, asked, Self.password("s3cret"))) == ["login 1"])
        #expect(login("s3cret", hasWaited: true) == .right(EngineBench.bob))
        #expect(login("guess") == .wrong)
        _ = bench.pass(.seconds(11))
        #expect(login("guess") == .asking(EngineBench.bob))
        bench.engine.loginWaits(LoginTicket(2), for: EngineBench.bob, from: EngineBench.phone.address)
        #expect(story(answer(bench, bench.take(), .away(.silent))) == ["login 2"])
        #expect(login("guess", hasWaited: true) == .unavailable)
        #expect(login("s3cret") == .right(EngineBench.bob))
    }

    @Test func `one address cannot use up the places of logins that wait`() {
        let bench = Self.bench()
        let attacker = IPAddress(v4: 0xc633_6409)
        func waits(_ number: UInt64, from source: IPAddress) -> Bool {
            bench.engine.loginWaits(LoginTicket(number), for: EngineBench.bob, from: source)
            return !story(bench.take()).contains("login \(number)")
        }
        _ = bench.engine.login(
            ByteString("bob"), in: nil, ByteString("x"), from: attacker, hasWaited: false, now: bench.now)
        let question = bench.take()
        let held = (1...200).filter { waits($0, from: attacker) }
        #expect(held.count == 10)
        #expect(waits(1000, from: EngineBench.phone.address))
        // After the answer of the source, new requests may wait again.
        let settled = story(answer(bench, question, .unknown))
        #expect(settled.contains("login 1000") && settled.count == 11)
        _ = bench.pass(.seconds(20))
        _ = bench.engine.login(
            ByteString("bob"), in: nil, ByteString("x"), from: attacker, hasWaited: false, now: bench.now)
        _ = bench.take()
        #expect(waits(2000, from: attacker))
    }
}

extension String {
    /// The password of the user with this name in `TestDigest`: the name spelled backwards.
    fileprivate var reversed: String { String(reversed()) }
}
