import Testing
import Timekeeping

@Suite("Instants and durations")
struct InstantTests {
    @Test(arguments: [
        (Duration.zero, Int64(0)), (.nanoseconds(1), 1), (.milliseconds(-1500), -1_500_000_000),
        (.seconds(32), 32_000_000_000), (.seconds(86_400 * 36_500), 3_153_600_000_000_000_000),
        (.seconds(Int64.max), .max), (.seconds(Int64.min), .min), (.seconds(10_000_000_000), .max),
    ])
    func `a duration has whole nanoseconds, as many as there can be`(duration: Duration, nanoseconds: Int64) {
        #expect(duration.nanoseconds == nanoseconds)
    }

    @Test func `parts of a nanosecond are cut off`() {
        let duration = Duration(secondsComponent: 20, attosecondsComponent: 1_999_999_999)
        #expect(duration.nanoseconds == 20_000_000_001)
        #expect((Duration.zero - duration).nanoseconds == -20_000_000_001)
    }

    @Test func `sums stay between the distant past and the distant future`() {
        let now = Instant(nanoseconds: 5)
        #expect(now + .seconds(2) == Instant(nanoseconds: 2_000_000_005))
        #expect(now + .seconds(Int64.max) == .distantFuture)
        #expect(Instant(nanoseconds: -5) + .seconds(Int64.min) == .distantPast)
        #expect(UnixTime(milliseconds: 1000) + .milliseconds(-1) == UnixTime(milliseconds: 999))
    }
}
