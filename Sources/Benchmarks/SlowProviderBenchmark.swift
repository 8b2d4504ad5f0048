/// Whether a provider that takes its time delays the pushes of other apps: the same calls without and with it, in turns.
enum SlowProviderBenchmark {
    private static let calls = 5000
    private static let rate = 1000.0
    /// Every sixth call is for the slow app.
    private static let share = 6

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let mixed = calls * share / (share - 1)
        // Rounds without and with the slow app, one after the other.
        let round = calls + mixed
        let bench = try Workbench(options, calls: round * options.rounds) { user in
            let place = user % round - calls
            return place >= 0 && place % share == share - 1
        }
        _ = try bench.registers.run(0..<round * options.rounds, cseq: 1, window: options.window)
        var alone = Rounds()
        var beside = Rounds()
        for number in 0..<options.rounds {
            let start = number * round
            try alone.add(bench, start..<start + calls)
            try beside.add(bench, start + calls..<start + round)
        }
        alone.report("alone", into: &report)
        beside.report("beside a provider that takes 5 s", into: &report)
        report.add("slow", "p99 beside it, of p99 alone", "ratio", beside.p99.median / max(alone.p99.median, 0.001))
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
