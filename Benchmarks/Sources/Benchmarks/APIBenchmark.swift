/// Measures how many token reports per second the HTTP API accepts and stores, and whether calls become slower
/// meanwhile.
///
/// Calls are measured alternately without reports, while another daemon receives reports, and while their own daemon
/// receives reports. Reports to another daemon delay calls only because both daemons share the machine. The API itself
/// causes the difference between the delay by its own daemon's reports and by another daemon's.
enum APIBenchmark {
    private static let calls = 1000
    private static let rate = 200.0
    private static let reportTime: Duration = .seconds(5)

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let users = 3 * calls * options.rounds
        let bench = try Workbench(options, calls: users, servesAPI: true)
        _ = try bench.registers.run(0..<users, cseq: 1, window: options.window)
        let load = try ReportLoad(at: bench.daemon)
        let twin = try bench.startTwin(options)
        let otherLoad = try ReportLoad(at: twin)

        var rates: [Double] = []
        var costs: [Double] = []
        var latency = Samples()
        // The first round warms up the daemon, and its results are dropped.
        for round in 0...options.rounds {
            let before = try bench.daemon.figures()
            load.start(connections: options.connections)
            try bench.pause(reportTime)
            let result = try load.stop()
            let after = try bench.daemon.figures()
            guard round > 0 else { continue }
            rates.append(Double(result.count) / result.time.seconds)
            costs.append((after.cpu - before.cpu).seconds * 1e6 / Double(max(result.count, 1)))
            latency = result.latency
        }
        let name = "reports, \(options.connections) at a time"
        report.add("api", name, "/s", rates)
        report.add("api", name + ", daemon's CPU", "µs", costs)
        report.add("api", name + ", answer", latency)

        var alone = Rounds()
        var apart = Rounds()
        var beside = Rounds()
        for number in 0..<options.rounds {
            let start = 3 * calls * number
            try alone.add(bench, start..<start + calls)
            try apart.add(bench, start + calls..<start + 2 * calls, beside: otherLoad, options)
            try beside.add(bench, start + 2 * calls..<start + 3 * calls, beside: load, options)
        }
        alone.report("alone", into: &report)
        apart.report("beside reports to another daemon", into: &report)
        beside.report("beside reports", into: &report)
        for (name, other) in [("alone", alone), ("beside another daemon's", apart)] {
            report.add("api", "push p99 beside reports, of p99 \(name)", "ratio", ratio(beside.pushP99, other.pushP99))
            report.add("api", "wake p99 beside reports, of p99 \(name)", "ratio", ratio(beside.wakeP99, other.wakeP99))
        }
        let lost = (0..<users).count { !bench.calls.calls[$0].isAcknowledged }
        if lost > 0 { report.complain("\(lost) of \(users) calls LOST") }
        load.close()
        otherLoad.close()
        try twin.stop()
        try bench.close()
    }

    private static func ratio(_ beside: [Double], _ alone: [Double]) -> Double {
        beside.median / max(alone.median, 0.001)
    }

    private struct Rounds {
        var pushP50: [Double] = []
        var pushP99: [Double] = []
        var wakeP50: [Double] = []
        var wakeP99: [Double] = []
        var reports: [Double] = []

        mutating func add(
            _ bench: Workbench, _ users: Range<Int>, beside load: ReportLoad, _ options: BenchmarkOptions
        ) throws(BenchmarkError) {
            load.start(connections: options.connections)
            try add(bench, users)
            let result = try load.stop()
            reports.append(Double(result.count) / result.time.seconds)
        }

        mutating func add(_ bench: Workbench, _ users: Range<Int>) throws(BenchmarkError) {
            _ = try bench.calls.hold(users, rate: rate)
            pushP50.append(bench.calls.pushLatencies.percentile(50).milliseconds)
            pushP99.append(bench.calls.pushLatencies.percentile(99).milliseconds)
            try bench.calls.wake(users, rate: rate)
            wakeP50.append(bench.calls.wakeLatencies.percentile(50).milliseconds)
            wakeP99.append(bench.calls.wakeLatencies.percentile(99).milliseconds)
        }

        func report(_ name: String, into report: inout Report) {
            report.add("api", "INVITE to push at 200/s, \(name), p50", "ms", pushP50)
            report.add("api", "INVITE to push at 200/s, \(name), p99", "ms", pushP99)
            report.add("api", "REGISTER to INVITE at 200/s, \(name), p50", "ms", wakeP50)
            report.add("api", "REGISTER to INVITE at 200/s, \(name), p99", "ms", wakeP99)
            if !reports.isEmpty { report.add("api", "reports beside calls, \(name)", "/s", reports) }
        }
    }
}
