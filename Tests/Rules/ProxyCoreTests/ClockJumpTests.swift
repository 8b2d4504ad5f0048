import ProxyCore
import Telemetry
import Testing
import TestSupport
import Timekeeping

/// Tests that a jump of the wall clock does not disturb the daemon, which uses the wall clock for dates only.
@Suite("Clock changes")
struct ClockJumpTests {
    @Test(arguments: [3600, -3600, 86_400, -86_400])
    func `calls, contacts and transactions end in time, at any date`(_ jump: Int) {
        let bench = EngineBench.registered()
        bench.register(user: "carl", token: nil, callID: "r2", expires: 60)
        bench.invite()
        let start = bench.now
        func at(_ seconds: Int) -> [String] {
            let now = Moment(instant: start.instant + .seconds(seconds), date: start.date + .seconds(seconds + jump))
            bench.engine.deadlineReached(now: now)
            return story(bench.take())
        }
        // The call still waits: the monotonic time has advanced by only a second, although the wall clock has advanced
        // by an hour.
        #expect(!at(1).contains { $0.contains("480") })
        #expect(bench.engine.heldCalls.count == 1)
        #expect(bench.targets.count == 1)
        #expect(bench.engine.figures[.bindings] == 2)
        #expect(at(31).contains("480 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
        _ = at(61)
        #expect(bench.engine.figures[.bindings] == 1)
        _ = at(70)
        #expect(bench.engine.figures[.transactions] == 0)
    }
}
