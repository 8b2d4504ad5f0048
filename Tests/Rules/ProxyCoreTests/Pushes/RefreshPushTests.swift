import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Pushes that ask phones to refresh their contacts (RFC 8599 section 5.5)")
struct RefreshPushTests {
    private func bench(lead: Int = 180, _ change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        let bench = EngineBench {
            $0.registrar.refreshPushLead = .seconds(lead)
            change(&$0)
        }
        bench.engine.restored(now: bench.now)
        return bench
    }

    /// Returns the times in seconds at which the engine requested pushes within the given duration.
    private func pushes(_ bench: EngineBench, within seconds: Int) -> [Int] {
        (1...seconds).flatMap { second in
            bench.pass(.seconds(1)).pushes.map { push in
                guard case .notification(let notification) = push.message, notification.isSilent else { return -1 }
                return second
            }
        }
    }

    @Test func `with one try, a phone gets one refresh push before each expiry`() throws {
        let bench = bench { $0.registrar.refreshPushTries = 1 }
        bench.register(expires: 600)
        let first = pushes(bench, within: 1200)
        #expect(first.count == 1)
        #expect(try (420...481).contains(#require(first.first)))
        bench.register(cseq: 2, expires: 600)
        #expect(pushes(bench, within: 700).count == 1)
    }

    @Test func `a phone that refreshes in time is not asked`() {
        let bench = bench()
        for cseq in 1...5 {
            bench.register(cseq: cseq, expires: 600)
            #expect(pushes(bench, within: 400) == [])
        }
    }

    @Test func `no push is sent without the setting, or to a phone without a token`() {
        let off = EngineBench()
        off.engine.restored(now: off.now)
        off.register(expires: 300)
        #expect(pushes(off, within: 600) == [])
        let ordinary = bench()
        ordinary.register(token: nil, expires: 300)
        #expect(pushes(ordinary, within: 600) == [])
    }

    @Test func `phones whose contacts expire together get refresh pushes one after the other`() {
        let bench = bench()
        for number in 0..<240 {
            bench.register(user: "u\(number)", token: "tok\(number)", callID: "r\(number)", expires: 600)
        }
        let asked = pushes(bench, within: 481)
        #expect(asked.count == 240)
        let most = Dictionary(grouping: asked, by: \.self).values.map(\.count).max() ?? 0
        #expect(most <= 5)
        #expect(bench.engine.figures[.refreshPush] == 240)
    }

    @Test func `a phone that does not come gets a second and a third push, and no more`() throws {
        let bench = bench()
        bench.register(expires: 3600)
        let asked = pushes(bench, within: 8000)
        try #require(asked.count == 3)
        #expect((3420...3481).contains(asked[0]))
        let rest = 3600 - asked[0]
        #expect((rest / 2 - 1...rest * 9 / 16 + 2).contains(asked[1] - asked[0]), "\(asked)")
        #expect(asked[2] < 3600 && asked[2] - asked[1] >= (3600 - asked[1]) / 2 - 1, "\(asked)")
        let figures = bench.engine.figures
        #expect(figures[.refreshPush] == 3 && figures[.refreshSecond] == 1 && figures[.refreshThird] == 1)
        #expect(figures[.refreshNever] == 1 && figures[.refreshCameThird] == 0)
    }

    @Test func `a phone that comes gets no further push, and the figures say after which it came`() throws {
        for (wait, counter) in [(1, Counter.refreshCameFirst), (2, .refreshCameSecond), (3, .refreshCameThird)] {
            let bench = bench()
            bench.register(expires: 3600)
            var seen = 0
            for _ in 1...3600 where seen < wait { seen += pushes(bench, within: 1).count }
            bench.register(cseq: 2, expires: 3600)
            #expect(pushes(bench, within: 3300) == [])
            #expect(bench.engine.figures[counter] == 1 && bench.engine.figures[.refreshNever] == 0)
            let (_, report) = try #require(bench.engine.refreshReports.first)
            #expect(report.came[wait - 1] == 1 && report.sent.reduce(0, +) == wait)
        }
    }

    @Test func `a phone that signs out or loses its token gets no further push`() throws {
        for isDead in [false, true] {
            let bench = bench()
            bench.register(expires: 3600)
            var push: PushID?
            for _ in 1...3600 where push == nil { push = bench.pass(.seconds(1)).pushIDs.first }
            if isDead {
                bench.finish(try #require(push), .tokenDead(since: nil))
                _ = bench.commitAll(in: bench.take())
            } else {
                bench.register(token: nil, cseq: 2, expires: 0)
            }
            #expect(pushes(bench, within: 400) == [])
            #expect(bench.engine.figures[.refreshNever] == 0)
        }
    }

    /// A daemon that is killed in the last minutes of a registration must not push the phone again after each start.
    @Test func `a daemon that is killed again and again sends no storm`() {
        let bench = RestartBench { $0.registrar.refreshPushLead = .seconds(180) }
        bench.told([])
        bench.bench.engine.restored(now: bench.bench.now)
        bench.register()
        for _ in 1...3500 { _ = bench.pass(.seconds(1)) }
        #expect(bench.pushes.count == 1)
        for _ in 1...3 {
            bench.crash()
            for _ in 1...15 { _ = bench.pass(.seconds(1)) }
            #expect(bench.pushes.count == 1)
        }
        // When the daemon stays up, the phone gets its next pushes.
        for _ in 1...60 { _ = bench.pass(.seconds(1)) }
        #expect((2...3).contains(bench.pushes.count))
    }

    /// Refresh pushes use a part of the requests to a provider, and a call's push does not wait behind them.
    @Test func `the push of a call leaves at once while refresh pushes wait`() {
        let bench = bench { $0.registrar.refreshPushRate = 100_000 }
        for number in 0..<240 {
            bench.register(user: "u\(number)", token: "tok\(number)", callID: "r\(number)", expires: 600)
        }
        bench.register(user: "carol", token: "tokc", callID: "rc", expires: 3600)
        // The provider answers nothing, so the requests for refresh pushes stay open.
        let sent = (1...520).flatMap { _ in bench.pass(.seconds(1)).pushes }
        #expect(!sent.isEmpty)
        #expect(bench.invite(to: "carol").pushes.count == 1)
    }

    @Test func `above its rate, an app's refresh pushes are spread, and the log says so`() {
        let sink = MemoryLogSink()
        let log = Log(level: .warning, sink: sink) { UnixTime(milliseconds: 0) }
        let bench = EngineBench(log: log) {
            $0.registrar.refreshPushLead = .seconds(180)
            $0.registrar.refreshPushRate = 1
        }
        bench.engine.restored(now: bench.now)
        for number in 0..<240 {
            bench.register(user: "u\(number)", token: "tok\(number)", callID: "r\(number)", expires: 600)
        }
        let asked = pushes(bench, within: 700)
        let most = Dictionary(grouping: asked, by: \.self).values.map(\.count).max() ?? 0
        #expect(most == 1 && asked.count > 100)
        #expect(bench.engine.figures[.refreshHeldBack] > 0)
        let lines = sink.lines.filter { $0.contains("refresh pushes are held back") }
        #expect((1...5).contains(lines.count))
    }
}
