/// Measures how many REGISTERs per second the daemon handles, and how much processor time each REGISTER costs.
enum RegisterBenchmark {
    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let bench = try Workbench(options)
        var first = Rounds()
        var refresh = Rounds()
        // The first round only warms up the daemon's tables and its store.
        for round in 0...options.rounds {
            let users = (round * options.requests)..<((round + 1) * options.requests)
            let measured = try measure(bench, users, cseq: 1, options)
            let again = try measure(bench, users, cseq: 2, options)
            guard round > 0 else { continue }
            first.add(measured)
            refresh.add(again)
        }
        try bench.close()
        first.report("first", into: &report)
        refresh.report("refresh", into: &report)
    }

    private struct Round {
        let rate: Double
        let cpu: Double
        let latency: Samples
    }

    private static func measure(
        _ bench: Workbench, _ users: Range<Int>, cseq: Int, _ options: BenchmarkOptions
    ) throws(BenchmarkError) -> Round {
        let before = try bench.daemon.figures()
        let time = try bench.registers.run(users, cseq: cseq, window: options.window)
        let after = try bench.daemon.figures()
        let count = Double(users.count)
        return Round(
            rate: count / time.seconds, cpu: (after.cpu - before.cpu).seconds * 1e6 / count,
            latency: bench.registers.client.latencies)
    }

    private struct Rounds {
        private var rates: [Double] = []
        private var costs: [Double] = []
        private var medians: [Double] = []
        private var tails: [Double] = []

        mutating func add(_ round: Round) {
            rates.append(round.rate)
            costs.append(round.cpu)
            medians.append(round.latency.percentile(50).milliseconds)
            tails.append(round.latency.percentile(99).milliseconds)
        }

        func report(_ kind: String, into report: inout Report) {
            report.add("register", kind, "/s", rates)
            report.add("register", kind + ", daemon's CPU", "µs", costs)
            report.add("register", kind + ", answer p50", "ms", medians)
            report.add("register", kind + ", answer p99", "ms", tails)
        }
    }
}
