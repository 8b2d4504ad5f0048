import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Testing
import Timekeeping

/// Tests the pushes that an operator sends to see how the provider answers.
@Suite("Test pushes")
struct TestPushTests {
    private let google = PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("a-long-token-of-nobody"))

    private func order(
        _ bench: EngineBench, _ target: TestPushTarget, _ number: UInt64 = 1
    ) throws -> TestPushPlan {
        try #require(bench.engine.testPushOrdered(target, TestPushTicket(number), now: bench.now))
    }

    private func ended(_ actions: [ProxyAction]) -> [(ticket: TestPushTicket, record: TimelineRecord)] {
        actions.compactMap { if case .testPushEnded(let ticket, let record) = $0 { (ticket, record) } else { nil } }
    }

    // MARK: Abuse

    @Test func `a phone gets no more of them than its limit of notifications`() throws {
        let bench = EngineBench.registered { $0.notificationsPerDevice = 2 }
        let plans = try (1...3).map { try order(bench, .user(EngineBench.bob), $0) }
        #expect(plans.map(\.sent) == [1, 1, 0])
        #expect(plans.last?.pushes.first?.omission == .deviceLimit)
        let actions = bench.take()
        #expect(actions.pushes.count == 2)
        // The refused push has a timeline record.
        #expect(actions.records.contains { $0.omission == .deviceLimit && $0.peer == TestPushPlan.orderer })
        _ = bench.pass(.seconds(61))
        #expect(try order(bench, .user(EngineBench.bob), 4).sent == 1)
    }

    @Test func `a token has the same limit, also when nobody here has it`() throws {
        let bench = EngineBench { $0.notificationsPerDevice = 2 }
        #expect(try (1...3).map { try order(bench, .token(google), $0).sent } == [1, 1, 0])
        let other = PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("another"))
        #expect(try order(bench, .token(other), 9).sent == 1)
    }

    @Test func `what is shown of the request has neither token nor text`() throws {
        let bench = EngineBench()
        let request = try #require(try order(bench, .token(google)).pushes.first?.request)
        let shown = ([request.line, request.body] + request.fields).joined(separator: "\n")
        #expect(request.line == "POST https://fcm.googleapis.com/…")
        #expect(!shown.contains("a-long-token") && !shown.contains("test push"))
        #expect(request.fields == ["content-type: application/json"])
        #expect(request.body.contains("to:…(22)"))
    }

    // MARK: Results

    @Test(arguments: [
        (PushOutcome.accepted(ByteString("x")), TimelineRecord.Answer.accepted),
        (.credentialsRefused("PERMISSION_DENIED"), .credentialsRefused), (.tokenDead(since: nil), .tokenDead),
    ])
    func `the operator hears what the provider said, and the record says who ordered it`(
        outcome: PushOutcome, answer: TimelineRecord.Answer
    ) throws {
        for recordsKept in [200_000, 0] {
            let bench = EngineBench { $0.timelineLimit = recordsKept }
            let plan = try order(bench, .token(google), 7)
            let push = try #require(bench.take().pushes.first)
            #expect(push.code == plan.code && push.device == .nobody)
            bench.finish(push.id, outcome)
            let actions = bench.take()
            let end = try #require(ended(actions).first)
            #expect(end.ticket == TestPushTicket(7) && end.record.answer == answer && end.record.code == plan.code)
            #expect(actions.records.map(\.peer) == (recordsKept > 0 ? [TestPushPlan.orderer] : []))
        }
    }

    @Test func `a dead token drops its device, as after any push`() throws {
        let bench = EngineBench.registered()
        _ = try order(bench, .user(EngineBench.bob))
        let push = try #require(bench.take().pushes.first)
        #expect(push.badge == 0)
        bench.finish(push.id, .tokenDead(since: nil))
        #expect(ended(bench.take()).first?.record.device == push.device)
        #expect(bench.targets.isEmpty)
    }

    @Test func `a token for calls alone, of no app, or none gets no push`() throws {
        let bench = EngineBench { $0.configuredProviders = [.apns, .fcm] }
        let calls = PushToken(
            provider: .apns, param: ByteString("T.app.voip"), prid: ByteString(String(repeating: "ab", count: 32)))
        let topic = PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("/topics/all"))
        for token in [calls, topic] {
            let plan = try order(bench, .token(token))
            #expect(plan.sent == 0 && plan.pushes.first?.omission == .notCarried)
        }
        #expect(bench.take().pushes.isEmpty)
        bench.register(token: nil, callID: "r3")
        #expect(try order(bench, .user(EngineBench.bob)).pushes.map(\.omission) == [.ordinaryContact])
    }
}
