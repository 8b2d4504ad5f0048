import Addressing
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite("Dead tokens")
struct DeadTokenTests {
    @Test func `a contact dropped for its token leaves a dead token in the same transaction`() throws {
        let bench = EngineBench()
        bench.register(token: "tok1")
        let push = try #require(bench.invite().pushIDs.first)
        let since = bench.now.date + .seconds(5)
        bench.engine.pushFinished(push, outcome: .tokenDead(since: since), now: bench.now)
        let actions = bench.take()
        let dead = DeadToken(
            token: PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1")), since: since,
            recordedAt: bench.now.date, source: .provider)
        #expect(actions.deadTokens == [dead])
        #expect(actions.recordsWithDeadTokens.allSatisfy { $0.deletedBindings == 1 })
        #expect(story(actions).contains("480 invite > pbx"))
        #expect(bench.engine.bindings.count == 0)
    }

    @Test func `without a time it is dead since we learned it`() throws {
        let bench = EngineBench()
        bench.register()
        let push = try #require(bench.invite().pushIDs.first)
        bench.engine.pushFinished(push, outcome: .tokenDead(since: nil), now: bench.now)
        #expect(bench.take().deadTokens.map(\.since) == [bench.now.date])
    }

    @Test func `a token that was registered later is not dead`() throws {
        let bench = EngineBench()
        bench.register()
        let push = try #require(bench.invite().pushIDs.first)
        bench.engine.pushFinished(
            push, outcome: .tokenDead(since: bench.now.date + .milliseconds(-1)), now: bench.now)
        #expect(bench.take().deadTokens.isEmpty)
        #expect(bench.engine.bindings.count == 1)
    }
}

extension [ProxyAction] {
    var deadTokens: [DeadToken] { recordsWithDeadTokens.flatMap(\.deadTokens) }

    /// The changes of each `record` that tells of a dead token.
    var recordsWithDeadTokens: [[StoredChange]] {
        compactMap { action in
            guard case .record(let changes) = action, !changes.deadTokens.isEmpty else { return nil }
            return changes
        }
    }
}

extension [StoredChange] {
    var deadTokens: [DeadToken] {
        compactMap { change in
            guard case .deadToken(let dead) = change else { return nil }
            return dead
        }
    }

    var deletedBindings: Int {
        count { change in
            guard case .binding(.delete) = change else { return false }
            return true
        }
    }
}
