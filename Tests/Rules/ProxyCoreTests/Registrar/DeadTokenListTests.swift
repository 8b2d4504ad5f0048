import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import TestSupport
import Testing
import Timekeeping

@Suite("The list of dead tokens")
struct DeadTokenListTests {
    @Test func `a contact dropped for its token leaves a dead token in the same transaction`() throws {
        let bench = EngineBench.registered(token: "tok1")
        let push = try #require(bench.invite().pushIDs.first)
        let since = bench.now.date + .seconds(5)
        bench.finish(push, .tokenDead(since: since))
        let actions = bench.take()
        let dead = DeadToken(
            token: PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1")), since: since,
            recordedAt: bench.now.date, source: .provider, domain: ByteString("example.net"))
        #expect(actions.deadTokens == [dead])
        #expect(actions.recordsWithDeadTokens.allSatisfy { $0.deletedBindings == 1 })
        #expect(story(actions).contains("480 invite > pbx"))
        #expect(bench.engine.bindings.count == 0)
    }

    @Test func `without a time it is dead since we learned it`() throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, .tokenDead(since: nil))
        #expect(bench.take().deadTokens.map(\.since) == [bench.now.date])
    }

    @Test func `a token that was registered later is not dead`() throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, .tokenDead(since: bench.now.date + .milliseconds(-1)))
        #expect(bench.take().deadTokens.isEmpty)
        #expect(bench.engine.bindings.count == 1)
    }
}

extension [ProxyAction] {
    var deadTokens: [DeadToken] { recordsWithDeadTokens.flatMap(\.deadTokens) }

    /// The changes in each `record` action that reports a dead token.
    var recordsWithDeadTokens: [[EngineChange]] {
        compactMap { action in
            guard case .record(let changes) = action, !changes.deadTokens.isEmpty else { return nil }
            return changes
        }
    }
}

extension [EngineChange] {
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

@Suite("Tokens that the feedback service reports dead")
struct FeedbackSearchTests {
    private static let first = String(repeating: "0a", count: 32)
    private static let second = String(repeating: "0b", count: 32)

    /// A bench whose engine pushes through Apple, with one device for each `pn-prid`.
    private func bench(_ prids: [(user: String, prid: String, param: String)]) -> EngineBench {
        let bench = EngineBench { $0.configuredProviders = [.apns, .fcm] }
        for (index, device) in prids.enumerated() {
            let source = Endpoint(IPAddress(v4: 0xc000_0210 + UInt32(index)), 40_000)
            let text = SIPText.register(
                user: device.user, from: source, callID: "a\(index)", cseq: 1, branch: "a\(index)",
                contact:
                    "<sip:\(device.user)@\(source);pn-provider=apns;pn-param=\(device.param);pn-prid=\(device.prid)>",
                expires: 3600, extra: [])
            _ = bench.commitAll(in: bench.receive(text, from: source))
        }
        return bench
    }

    private func report(_ bench: EngineBench, _ tokens: [String: UInt32], limit: Int = 100) -> DeadTokenFindings {
        bench.engine.tokensReportedDead(
            Dictionary(uniqueKeysWithValues: tokens.map { (ByteString($0.key), $0.value) }), from: BindingCursor(),
            limit: limit, now: bench.now)
    }

    private var second: UInt32 { UInt32(EngineBench().now.date.seconds) }

    @Test(arguments: [
        (first, "T.app"), (first.uppercased(), "T.app"),
        ("\(second)%3Aremote%26\(first)%3Avoip", "T.app.remote%26voip"),
        ("\(first.uppercased()):remote&\(second):voip", "T.app.remote&voip"),
    ])
    func `a contact is found by its token in any form, and dropped`(prid: String, param: String) {
        let bench = bench([("bob", prid, param), ("carol", String(repeating: "cc", count: 32), "T.app")])
        #expect(bench.engine.bindings.count == 2)
        let findings = report(bench, [Self.first: second, String(repeating: "dd", count: 32): second])
        #expect(findings.dropped == 1 && findings.newer == 0 && findings.next == nil)
        #expect(findings.matched.map(\.string) == [Self.first])
        #expect(bench.engine.bindings.count == 1)
        let actions = bench.take()
        #expect(actions.deadTokens.map(\.source) == [.feedback])
        #expect(actions.deadTokens.map(\.since) == [UnixTime(seconds: Int64(second))])
        #expect(actions.recordsWithDeadTokens.map(\.deletedBindings) == [1])
    }

    @Test func `a token named after that second stays, with the contact`() {
        let bench = bench([("bob", Self.first, "T.app")])
        let findings = report(bench, [Self.first: second - 1])
        #expect(findings.dropped == 0 && findings.newer == 1)
        #expect(bench.engine.bindings.count == 1)
        #expect(bench.take().deadTokens.isEmpty)
    }

    @Test func `the call that waits for the device ends, and so do its missed calls`() {
        let bench = bench([("bob", Self.first, "T.app")])
        bench.invite()
        let findings = report(bench, [Self.first: second])
        #expect(findings.dropped == 1)
        #expect(story(bench.take()) == ["480 invite > pbx"])
        #expect(bench.engine.heldCalls.isEmpty)
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).isEmpty)
    }

    @Test func `one token of two users drops both contacts`() {
        let bench = bench([("bob", Self.first, "T.app"), ("carol", Self.first, "T.app")])
        #expect(report(bench, [Self.first: second]).dropped == 2)
        #expect(bench.engine.bindings.count == 0)
    }

    @Test func `contacts of other providers are not checked`() {
        let bench = EngineBench { $0.configuredProviders = [.apns, .fcm] }
        bench.register(token: Self.first)
        #expect(report(bench, [Self.first: .max]) == DeadTokenFindings())
        #expect(bench.engine.bindings.count == 1)
    }

    @Test func `a device that is just registering is left alone`() {
        let bench = bench([("bob", Self.first, "T.app")])
        let source = Endpoint(IPAddress(v4: 0xc000_0299), 40_000)
        let text = SIPText.register(
            user: "bob", from: source, callID: "b", cseq: 1, branch: "b",
            contact: "<sip:bob@\(source);pn-provider=apns;pn-param=T.app;pn-prid=\(Self.first)>", expires: 3600,
            extra: [])
        let register = bench.receive(text, from: source)
        #expect(report(bench, [Self.first: .max]) == DeadTokenFindings())
        #expect(story(bench.commitAll(in: register)).contains { $0.hasPrefix("200 register") })
        #expect(bench.engine.bindings.count == 1)
    }

    @Test func `the search goes through all bindings in steps`() {
        let devices = (0..<50).map { (user: "u\($0)", prid: Self.token($0), param: "T.app") }
        let bench = bench(devices)
        let dead = Dictionary(uniqueKeysWithValues: (0..<50).map { (ByteString(Self.token($0)), second) })
        var cursor: BindingCursor? = BindingCursor()
        var (dropped, steps) = (0, 0)
        while let start = cursor {
            let findings = bench.engine.tokensReportedDead(dead, from: start, limit: 7, now: bench.now)
            #expect(findings.dropped <= 7)
            dropped += findings.dropped
            steps += 1
            cursor = findings.next
        }
        #expect(dropped == 50)
        #expect(steps == 8)
        #expect(bench.engine.bindings.count == 0)
    }

    private static func token(_ number: Int) -> String {
        String(repeating: "0", count: 62) + (number < 16 ? "0" : "") + String(number, radix: 16)
    }
}
