@testable import PushPlanning
import ProxyPolicy
import Addressing
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Shares of timeline records (T32.5)")
struct TimelineSharesTests {
    private let now = Instant(nanoseconds: 1_000_000_000)

    private func shares(_ records: Int) -> TimelineShares {
        var settings = ProxySettings()
        settings.recordsKept = records
        return TimelineShares(settings)
    }

    private func admitted(_ shares: inout TimelineShares, of caller: Caller) -> Int {
        (0..<1000).count { _ in shares.admits(from: caller, now: now) }
    }

    @Test func `a phone has a sixteenth, and leaves the others theirs`() {
        var shares = shares(160)
        #expect(admitted(&shares, of: Caller(hash: 1, isTrusted: false)) == 10)
        #expect(admitted(&shares, of: Caller(hash: 2, isTrusted: false)) == 10)
    }

    @Test func `a caller that a trusted peer names has the share of one caller`() {
        var shares = shares(160)
        #expect(admitted(&shares, of: Caller(hash: 1, isTrusted: true)) == 80)
    }

    @Test func `the log reports it once a minute`() {
        var shares = shares(160)
        let sink = MemoryLogSink()
        let log = Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) }
        for _ in 0..<9 { shares.tell(log, now: now) }
        #expect(sink.lines.count == 1)
        shares.tell(log, now: now + .seconds(61))
        #expect(sink.lines.count == 2)
    }
}
