import AccessLimits
import ProxyPolicy
import Addressing
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import ProxyCore

@Suite("Rate of REGISTERs from one source (T17.6)")
struct RegisterRateTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let phone = MachineScene.phone

    private func limit(_ perSecond: Int) -> RegisterLimit {
        var limits = LimitSettings()
        limits.registersPerSource = perSecond
        return RegisterLimit(limits)
    }

    /// Returns how many REGISTERs the limit accepts at one moment.
    private func taken(by limit: inout RegisterLimit, on flow: Flow, isProved: Bool) -> Int {
        var count = 0
        while count < 1000, limit.wait(on: flow, showsPassword: isProved, now: now) == nil,
            limit.came(on: flow, isProved: isProved, now: now) == nil
        {
            count += 1
        }
        return count
    }

    @Test func `a burst of ten seconds' worth is allowed, and a quarter of it without a password`() {
        var limit = limit(8)
        #expect(taken(by: &limit, on: phone, isProved: false) == 20)
        // REGISTERs without a password do not use up the limit for REGISTERs with a right password.
        #expect(taken(by: &limit, on: phone, isProved: true) == 80)
        #expect(limit.wait(on: phone, showsPassword: true, now: now) != nil)
        #expect(limit.wait(on: phone, showsPassword: true, now: now + .seconds(10)) == nil)
    }

    @Test func `a source that may be invented is another than the same address by a connection`() {
        var limit = limit(1)
        #expect(taken(by: &limit, on: phone, isProved: true) == 10)
        let connection = Flow(transport: .tcp, listener: 0, connection: 5, remote: phone.remote)
        #expect(taken(by: &limit, on: connection, isProved: true) == 10)
        // A request from another port counts for the same source.
        let other = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(phone.remote.address, 9))
        #expect(taken(by: &limit, on: other, isProved: true) == 0)
    }

    @Test func `0 is no limit, and a change of the setting holds at once`() {
        var limit = limit(0)
        #expect(taken(by: &limit, on: phone, isProved: false) == 1000)
        limit.changed(LimitSettings())
        #expect(limit.wait(on: phone, showsPassword: true, now: now) == nil)
        #expect(taken(by: &limit, on: MachineScene.pbx, isProved: false) == 1000)
        var limits = LimitSettings()
        limits.registersPerSource = 4
        limit.changed(limits)
        #expect(taken(by: &limit, on: phone, isProved: false) == 10)
    }

    @Test func `the log reports it a few times, and after that the number of omitted lines`() {
        var limit = limit(1)
        let sink = MemoryLogSink()
        let log = Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) }
        for _ in 0..<50 { limit.tell(log, of: phone, now: now) }
        #expect(sink.lines.count == 5)
        limit.tell(log, of: phone, now: now + .seconds(600))
        #expect(sink.lines.last?.contains("suppressed=45") == true, "\(sink.lines)")
    }
}
