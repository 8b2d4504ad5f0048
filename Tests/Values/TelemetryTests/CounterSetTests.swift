@testable import Telemetry
import Testing

@Suite("Counters")
struct CounterSetTests {
    @Test func `figures add up, over loops too`() {
        var one = CounterSet()
        one.count(.requestInvite)
        one.count(.requestInvite, by: 2)
        one.set(.bindings, to: 5)
        one.observe(.delivery, .milliseconds(3))
        var other = CounterSet()
        other.count(.requestInvite)
        other.set(.bindings, to: 2)
        other.observe(.delivery, .seconds(1))
        one.merge(other)
        #expect(one[.requestInvite] == 4)
        #expect(one[.bindings] == 7)
        #expect(one[.delivery].total == 2)
        #expect(one[.delivery].sum == .milliseconds(1003))
        #expect(one.prometheusText().contains("\nsippushd_sip_requests_total{method=\"INVITE\"} 4\n"))
    }

    @Test(arguments: [
        (Duration.zero, Duration.microseconds(100) as Duration?), (.microseconds(100), .microseconds(100)),
        (.microseconds(101), .microseconds(200)), (.milliseconds(-1), .microseconds(100)),
        (.seconds(1_000_000), nil),
    ])
    func `a duration falls into the first slot that holds it`(duration: Duration, bound: Duration?) {
        var histogram = Histogram()
        histogram.add(duration)
        #expect(histogram.cumulative.first { $0.1 == 1 }?.0 == bound)
        #expect(histogram.total == 1)
    }

    @Test func `every name appears once and each family has one head`() {
        var set = CounterSet()
        set.count(.heldDelivered, by: 3)
        set.observe(.storeCommit, .microseconds(1500))
        let lines = set.prometheusText().split(separator: "\n").map(String.init)
        let samples = lines.filter { !$0.hasPrefix("#") }.map { $0.split(separator: " ")[0] }
        #expect(Set(samples).count == samples.count)
        let heads = lines.filter { $0.hasPrefix("# TYPE") }
        #expect(Set(heads).count == heads.count)
        #expect(lines.contains("sippushd_held_calls_ended_total{outcome=\"delivered\"} 3"))
        #expect(lines.contains("sippushd_store_commit_seconds_bucket{le=\"0.001600\"} 1"))
        #expect(lines.contains("sippushd_store_commit_seconds_bucket{le=\"0.000800\"} 0"))
        #expect(lines.contains("sippushd_store_commit_seconds_sum 0.001500"))
    }

    @Test func `a family writes its labels, with any content`() {
        var family = MetricFamily("sippushd_test_total", .counter, "Of a test.")
        #expect(!CounterSet().prometheusText(with: [family]).contains("sippushd_test_total"))
        family.add(7, [.provider: "apns", .app: "a\"b\\c\nd"])
        family.add(.milliseconds(1250))
        let text = CounterSet().prometheusText(with: [family])
        #expect(
            text.hasSuffix(
                """
                # HELP sippushd_test_total Of a test.
                # TYPE sippushd_test_total counter
                sippushd_test_total{provider="apns",app="a\\"b\\\\c\\nd"} 7
                sippushd_test_total 1.250000

                """))
    }
}
