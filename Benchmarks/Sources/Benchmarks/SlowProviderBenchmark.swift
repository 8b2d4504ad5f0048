/// Measures the time from INVITE to push, and whether a slow provider delays the pushes of other apps.
///
/// The same calls go alternately to the ``Relay``, to the daemon, and to the daemon with the slow provider. The
/// daemon's own time is the difference between the times of relay and daemon.
enum SlowProviderBenchmark {
    private static let calls = 5000
    private static let rate = 1000.0
    /// One call in so many is for the app whose push provider is slow.
    private static let share = 6

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let mixed = calls * share / (share - 1)
        // A round has calls for the relay, calls without the slow app, and calls with the slow app.
        let round = calls + calls + mixed
        let bench = try Workbench(options, calls: round * options.rounds, wakesPhones: false) { user in
            let place = user % round - 2 * calls
            return place >= 0 && place % share == share - 1
        }
        _ = try bench.registers.run(0..<round * options.rounds, cseq: 1, window: options.window)
        let relay = try bench.startRelay(options)
        var least = Rounds()
        var alone = Rounds()
        var beside = Rounds()
        for number in 0..<options.rounds {
            let start = number * round
            bench.calls.target = relay.endpoint
            try least.add(bench, start..<start + calls)
            bench.calls.target = bench.daemon.endpoint
            try alone.add(bench, start + calls..<start + 2 * calls)
            try beside.add(bench, start + 2 * calls..<start + round)
        }
        least.report("by a relay that only pushes", into: &report)
        alone.report("alone", into: &report)
        report.add("slow", "added by the daemon, p50", "ms", alone.p50.median - least.p50.median)
        report.add("slow", "added by the daemon, p99", "ms", alone.p99.median - least.p99.median)
        beside.report("beside a provider that takes 5 s", into: &report)
        report.add("slow", "p99 beside it, of p99 alone", "ratio", beside.p99.median / max(alone.p99.median, 0.001))
        try relay.stop()
        try bench.close()
    }

    private struct Rounds {
        var p50: [Double] = []
        var p99: [Double] = []

        mutating func add(_ bench: Workbench, _ users: Range<Int>) throws(BenchmarkError) {
            _ = try bench.calls.hold(users, rate: rate)
            p50.append(bench.calls.pushLatencies.percentile(50).milliseconds)
            p99.append(bench.calls.pushLatencies.percentile(99).milliseconds)
        }

        func report(_ name: String, into report: inout Report) {
            report.add("slow", "INVITE to push at 1000/s, \(name), p50", "ms", p50.median)
            report.add("slow", "INVITE to push at 1000/s, \(name), p99", "ms", p99.median)
        }
    }
}
