@testable import Control
@testable import ProxyRuntime
import PushDelivery
import Telemetry
import Testing
import Timekeeping

@testable import ProxyRuntime
import UpstreamRegistration

@Suite("Metrics")
struct MetricsTests {
    private func text(_ families: [MetricFamily]) -> [Substring] {
        CounterSet().prometheusText(with: families).split(separator: "\n")
    }

    @Test func `pushes are counted by provider, app and outcome`() throws {
        var settings = PushSettings()
        settings.acrobits.enabled = true
        let app = try #require(PushDirectory(settings).apps.first)
        var report = PushAppReport()
        let now = UnixTime(seconds: 1)
        for outcome in [
            PushOutcome.accepted(nil), .accepted(nil), .tokenDead(since: nil), .credentialsRefused("no"),
            .payloadRefused("no"), .retry(after: nil), .noSuitableToken,
        ] { report.count(outcome, at: now) }
        report.sent = 9
        report.retried = 2
        report.withdrawn = 3
        report.isReachable = false
        let lines = text(MetricFamily.pushes([(app, report)]))
        func has(_ name: String, outcome: String? = nil, _ value: Int) -> Bool {
            let last = outcome.map { ",outcome=\"\($0)\"" } ?? ""
            return lines.contains("\(name){provider=\"acrobits\",app=\"acrobits\"\(last)} \(value)")
        }
        #expect(has("sippushd_pushes_sent_total", 9))
        #expect(has("sippushd_push_retries_total", 2))
        #expect(has("sippushd_push_breaker_open", 1))
        for (outcome, count) in [
            ("accepted", 2), ("token-dead", 1), ("credentials-refused", 1), ("payload-refused", 1), ("failed", 2),
            ("withdrawn", 3),
        ] { #expect(has("sippushd_pushes_ended_total", outcome: outcome, count), "\(outcome)") }
    }

    @Test func `users at a PBX are counted by state, and late refreshes in a histogram`() {
        let lines = text(MetricFamily.upstreamUsers(UpstreamCounts()))
        for state in ["registering", "registered", "refreshing", "refused", "absent", "ending"] {
            #expect(lines.contains("sippushd_upstream_bindings{state=\"\(state)\"} 0"))
        }
        #expect(lines.contains("sippushd_upstream_register_total{result=\"refused\"} 0"))
        #expect(lines.contains("# TYPE sippushd_upstream_refresh_lag_seconds histogram"))
        #expect(lines.contains("sippushd_upstream_refresh_lag_seconds_bucket{le=\"+Inf\"} 0"))
        #expect(lines.contains("sippushd_upstream_refresh_lag_seconds_count 0"))
        var lag = Histogram()
        lag.add(.seconds(3))
        var family = MetricFamily("a_seconds", .histogram, "A.")
        family.add(lag)
        let histogram = text([family])
        #expect(histogram.contains("a_seconds_sum 3.000000"))
        #expect(histogram.contains("a_seconds_bucket{le=\"3.276800\"} 1"))
        #expect(histogram.contains("a_seconds_bucket{le=\"1.638400\"} 0"))
    }

    @Test func `the version and the process are shown`() {
        let lines = text([.build] + MetricFamily.process())
        #expect(lines.contains("sippushd_build_info{version=\"\(Version.current)\"} 1"))
        for name in [
            "process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
            "process_threads", "process_start_time_seconds", "process_open_fds", "process_max_fds",
        ] {
            let value = lines.first { $0.hasPrefix(name + " ") }?.split(separator: " ").last
            #expect((value.flatMap { Double($0) } ?? 0) > 0, "\(name)")
        }
    }

    @Test func `a process with any name is read`() throws {
        let rest = (3...52).map { "\($0 * 100)" }.joined(separator: " ")
        let state = try #require(
            ProcessState(stat: "7 (a) b) \(rest)", bootedAt: 1000, ticksPerSecond: 100, pageSize: 4096))
        #expect(state.cpu == .seconds(29))
        #expect(state.threads == 2000)
        #expect(state.startedAt == 1022)
        #expect(state.virtualBytes == 2300)
        #expect(state.residentBytes == 2400 * 4096)
        #expect(ProcessState(stat: "7 (a", bootedAt: nil, ticksPerSecond: 100, pageSize: 4096) == nil)
    }
}
