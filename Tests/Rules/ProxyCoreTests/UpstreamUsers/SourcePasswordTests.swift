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
import UpstreamRegistration

/// Tests users of a PBX whose passwords are in a source of users outside the store.
@Suite("Passwords of sources, for the PBX")
struct SourcePasswordTests {
    private static func bench() -> PBXBench {
        PBXBench(users: UserDirectory()) { $0.users.sources = [UserRules.Source(name: "pbx")] }
    }

    private static func password(_ text: String) -> UserAnswer {
        var secrets = UserSecrets()
        secrets.password = ByteString(text)
        return .found(secrets)
    }

    private func questions(_ actions: [ProxyAction]) -> [UserQuestion] {
        actions.compactMap { if case .askUser(let question) = $0 { question } else { nil } }
    }

    /// Answers the queries to the source of users, and lets the PBX answer the requests that follow.
    @discardableResult
    private func answer(_ pbx: inout PBXBench, _ actions: [ProxyAction], _ answer: UserAnswer) -> [ProxyAction] {
        var all: [ProxyAction] = []
        for question in questions(actions) {
            pbx.engine.userAnswered(question.ticket, answer, now: pbx.bench.now)
            all += pbx.react(to: pbx.bench.take())
        }
        return all
    }

    private func status(_ pbx: PBXBench) throws -> UpstreamStatus {
        let user = try #require(pbx.engine.upstreamUsers.user(EngineBench.bob))
        return try #require(pbx.engine.upstreamUsers.agent.status(of: user))
    }

    @Test func `the source is asked when the PBX asks, and its password registers the user`() throws {
        var pbx = Self.bench()
        let actions = pbx.react(to: pbx.bench.register()) + pbx.pass(.seconds(1))
        #expect(questions(actions).map(\.name.string) == ["bob"])
        #expect(pbx.received.count == 1)
        answer(&pbx, actions, Self.password("s3cret"))
        #expect(pbx.received.count == 2)
        let credentials = try #require(pbx.received.last?.authorization.first)
        let user = DigestUser(
            name: ByteString("bob"), realm: ByteString("example.net"), password: ByteString("s3cret"),
            algorithms: [.md5], functions: .forTests)
        let expected = DigestFunctions.forTests.response(
            to: credentials, .md5, method: .register, ha1: user.ha1[.md5]?.array ?? [])
        #expect(credentials.response.string == String(decoding: expected, as: UTF8.self))
        #expect(try status(pbx).state == .registered)
        // A phone's REGISTER with an unchanged password causes no REGISTER at the PBX.
        pbx.react(to: pbx.bench.register(cseq: 2))
        pbx.pass(.seconds(2))
        #expect(pbx.received.filter { !$0.contacts.isEmpty }.count == 2)
        // When the last phone signs out, the daemon ends the user's binding at the PBX with the remembered password.
        pbx.react(to: pbx.bench.register(cseq: 3, expires: 0))
        pbx.pass(.seconds(1))
        #expect(pbx.contacts["bob"] == nil)
    }

    @Test func `while the source is away, the PBX is not asked again and again`() throws {
        var pbx = Self.bench()
        var actions = pbx.react(to: pbx.bench.register()) + pbx.pass(.seconds(1))
        answer(&pbx, actions, .away(.silent))
        #expect(try status(pbx).words == "no source of users says now which password the user has")
        #expect(try status(pbx).state == .registering)
        for _ in 0..<100 {
            actions = pbx.pass(.seconds(1))
            answer(&pbx, actions, .away(.silent))
        }
        #expect(pbx.received.count == 1)
        var asked = false
        for _ in 0..<400 where !asked {
            actions = pbx.pass(.seconds(1))
            asked = !questions(actions).isEmpty
            answer(&pbx, actions, Self.password("s3cret"))
        }
        #expect(try status(pbx).state == .registered)
    }

    @Test func `a source that hangs holds up the user alone, and a late answer is used`() throws {
        var pbx = Self.bench()
        let actions = pbx.react(to: pbx.bench.register()) + pbx.pass(.seconds(4))
        #expect(try status(pbx).state == .registering)
        answer(&pbx, actions, Self.password("s3cret"))
        pbx.pass(.seconds(20))
        #expect(try status(pbx).state == .registered)
    }

    @Test func `a user whom no source has is not registered, and the PBX is not blamed`() throws {
        let sink = LineSink()
        var pbx = PBXBench(users: UserDirectory(), log: Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) }) {
            $0.users.sources = [UserRules.Source(name: "pbx")]
        }
        let actions = pbx.react(to: pbx.bench.register()) + pbx.pass(.seconds(1))
        answer(&pbx, actions, .unknown)
        pbx.pass(.seconds(100))
        #expect(pbx.received.count == 1)
        #expect(try status(pbx).refusal == .noPassword)
        let lines = sink.take().joined()
        #expect(lines.contains("the daemon has no password of the user") && !lines.contains("the PBX refuses"))
    }

    @Test func `a refused password is compared with the source, and only another one is tried`() throws {
        for (later, isTried) in [("s3cret", false), ("n3w", true)] {
            var pbx = Self.bench()
            pbx.grants = 60
            answer(&pbx, pbx.react(to: pbx.bench.register()) + pbx.pass(.seconds(1)), Self.password("s3cret"))
            pbx.pass(.seconds(11))
            pbx.refuses = 403
            var actions: [ProxyAction] = []
            while try status(pbx).state != .refused { actions = pbx.pass(.seconds(1)) }
            let count = pbx.received.count
            #expect(questions(actions).count == 1)
            pbx.refuses = nil
            answer(&pbx, actions, Self.password(later))
            pbx.pass(.seconds(5))
            #expect(try (status(pbx).state == .registered) == isTried, "\(later)")
            #expect((pbx.received.count > count) == isTried)
            // A phone that sends the refused password does not make the daemon try this password at the PBX again.
            pbx.react(to: pbx.bench.register(cseq: 5))
            pbx.pass(.seconds(5))
            #expect(try (status(pbx).state == .registered) == isTried)
        }
    }

    @Test func `after a start with many users, the questions come at the rate of the REGISTERs`() {
        var pbx = PBXBench(users: UserDirectory()) {
            $0.users.sources = [UserRules.Source(name: "pbx", parallel: 100)]
            $0.upstreamRegistrations[ByteString("example.net")]?.rate = 5
        }
        for number in 0..<60 {
            pbx.react(to: pbx.bench.register(user: "u\(number)", token: "t\(number)", callID: "c\(number)"))
        }
        var asked: [Int] = []
        for _ in 0..<30 {
            let actions = pbx.pass(.seconds(1))
            asked.append(questions(actions).count)
            answer(&pbx, actions, Self.password("x"))
        }
        #expect(asked.allSatisfy { $0 <= 6 }, "\(asked)")
        #expect(pbx.contacts.count == 60)
    }
}
