import Addressing
import Bytes
import ProxyCore
import PushDelivery
import PushPlanning
import Testing
import Timekeeping

/// Dry runs ask a push provider whether a token is valid, without a message to the phone.
@Suite("Dry runs")
struct DryRunTests {
    private let bench = EngineBench()
    private let google = PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1"))

    private func ask(_ token: PushToken, _ number: UInt64 = 1) -> [ProxyAction] {
        bench.engine.dryRunAsked(token, DryRunTicket(number), now: bench.now)
        return bench.take()
    }

    @Test(arguments: [
        (PushOutcome.accepted(nil), true), (.tokenDead(since: nil), false), (.credentialsRefused("no"), false),
        (.retry(after: nil), false),
    ])
    func `are a silent push that belongs to no call, and its outcome is the answer`(outcome: PushOutcome, isGood: Bool)
        throws
    {
        let push = try #require(ask(google).pushes.first)
        #expect(push.device == .nobody && push.badge == 0 && push.deadline == bench.now.date + .seconds(30))
        guard case .silent = push.message else {
            Issue.record("somebody would notice it")
            return
        }
        bench.finish(push.id, outcome)
        let answer = bench.take()
        #expect(story(answer) == ["dry run \(isGood)"])
        guard case .dryRunEnded(let ticket, _)? = answer.first else { return }
        #expect(ticket == DryRunTicket(1))
    }

    @Test func `are tried again as other pushes are`() throws {
        let first = try #require(ask(google).transmissions.first)
        bench.engine.pushHappened(.unanswered(first, .retry(after: nil), "not there"), now: bench.now)
        #expect(bench.take().isEmpty)
        let again = try #require(bench.pass(.seconds(1)).pushes.first)
        #expect(again.id == first.push.id)
        bench.finish(again.id)
        #expect(story(bench.take()) == ["dry run true"])
    }

    @Test func `end without a push if the token is not valid for Apple, or belongs to no configured app`() {
        let apple = PushToken(provider: .apns, param: ByteString("T.app"), prid: ByteString("a:b:c"))
        #expect(story(ask(apple)) == ["dry run false"])
        let topic = PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("/topics/all"))
        #expect(ask(topic).isEmpty)
        #expect(story(bench.pass(.zero)) == ["dry run false"])
    }

    @Test func `know a token for calls alone without asking: Apple wants no other push to it`() {
        let calls = PushToken(
            provider: .apns, param: ByteString("T.app.voip"), prid: ByteString(String(repeating: "ab", count: 32)))
        #expect(ask(calls).isEmpty)
        #expect(story(bench.pass(.zero)) == ["dry run true"])
    }
}
