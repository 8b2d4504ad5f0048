import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
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

    @Test func `a phone gets one refresh push before each expiry`() throws {
        let bench = bench()
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
        let asked = pushes(bench, within: 600)
        #expect(asked.count == 240)
        let most = Dictionary(grouping: asked, by: \.self).values.map(\.count).max() ?? 0
        #expect(most <= 5)
        #expect(bench.engine.figures[.refreshPush] == 240)
    }
}
