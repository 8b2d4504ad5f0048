import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Calls to a user who wants no disturbance")
struct DoNotDisturbCallTests {
    private static let (desk, mobile) = (TurnBench.desk, EngineBench.phone)

    private static func silent(
        _ change: (inout DoNotDisturb) -> Void = { _ in }, _ settings: (inout ProxySettings) -> Void = { _ in }
    ) -> TurnBench {
        let bench = TurnBench.bob(settings)
        var rule = DoNotDisturb()
        rule.isAlways = true
        change(&rule)
        bench.set { $0.doNotDisturb = rule }
        return bench
    }

    @Test func `no device rings, the caller gets 480, and the mobile has a missed call`() {
        let bench = Self.silent()
        #expect(bench.call() == ["480 invite > pbx"])
        bench.acknowledge()
        #expect(bench.pass(60).isEmpty)
        #expect(bench.isMissed(by: "tok1"))
        #expect(bench.lastRecords == ["do-not-disturb not-offered", "do-not-disturb not-offered"])
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2) == ["push missed 103 tok1"])
        #expect(bench.bench.engine.heldCallCount == 0)
    }

    @Test(arguments: [486, 600, 603] as [UInt16])
    func `the caller gets the status of the rule`(status: UInt16) {
        #expect(Self.silent({ $0.status = status }).call() == ["\(status) invite > pbx"])
    }

    @Test func `an awake phone does not ring either`() {
        let bench = Self.silent({ _ in }) { $0.call.skipPushWithin = .seconds(60) }
        #expect(bench.call() == ["480 invite > pbx"])
        #expect(bench.isMissed(by: "tok1"))
    }

    @Test func `outside its windows the rule has no effect`() {
        // The bench begins on a Monday at 14:13 UTC.
        let bench = Self.silent { rule in
            rule.isAlways = false
            rule.windows = [.init(days: [0], from: 14 * 60 + 15, to: 15 * 60)]
        }
        #expect(bench.call().contains("invite > desk"))
        _ = bench.cancel()
        bench.answer(487, "desk", at: Self.desk)
        _ = bench.pass(120)
        let later = bench.bench.invite(callID: "c2", branch: "i2")
        #expect(story(later).filter { !$0.hasPrefix("100") } == ["480 invite > pbx"])
    }

    @Test func `a caller with an exception makes the phones ring`() {
        #expect(Self.silent({ $0.exceptions = ["103"] }).call().contains("invite > desk"))
        #expect(Self.silent({ $0.exceptions = ["104"] }).call() == ["480 invite > pbx"])
    }

    @Test func `the call is forwarded if call.no-wake forwards calls`() {
        let bench = Self.silent({ $0.status = 486 }) {
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            $0.call.noWake.action = .forward
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
        }
        #expect(bench.call() == ["invite > pbx"])
        #expect(bench.isMissed(by: "tok1") == false)
    }

    @Test func `the caller is redirected if call.no-wake redirects calls`() {
        let bench = Self.silent({ $0.status = 486 }) {
            $0.call.noWake.action = .redirect
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
        }
        #expect(bench.call() == ["302 invite > pbx"])
    }

    @Test func `a MESSAGE still wakes the phone, and other users ring`() {
        let bench = Self.silent()
        bench.bench.register(user: "alice", token: "tok9", callID: "ra")
        #expect(story(bench.bench.invite(to: "alice")).contains("push invite tok9"))
    }

    @Test func `the log says at the default level that no phone rang`() {
        let line = CallLineBench(level: .notice)
        line.bench.register()
        var rules = CallRules()
        rules.doNotDisturb = DoNotDisturb()
        rules.doNotDisturb?.isAlways = true
        rules.doNotDisturb?.status = 486
        line.bench.engine.rulesSet(StoredUserRules(aor: EngineBench.bob, rules: rules))
        _ = line.bench.invite()
        let lines = line.takeLines()
        #expect(lines.contains { $0.contains("call ended") && $0.contains("N--S") && $0.contains("486") }, "\(lines)")
        #expect(lines.contains { $0.contains("do not disturb") }, "\(lines)")
    }
}
