import Reactor
import Timekeeping

/// Measures how many requests the daemon still serves under ten times the usual load. The requests are REGISTERs that
/// refresh contacts, or calls to phones that are awake. REGISTERs and calls are measured at the usual rate, at ten
/// times the usual rate, and at the usual rate again.
enum OverloadBenchmark {
    private static let users = 20_000
    private static let phones = 500
    private static let time: Duration = .seconds(5)
    /// The seconds after the high load in which the recovery is measured.
    private static let recovery = 10

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let bench = try Workbench(options)
        _ = try bench.registers.run(0..<users, cseq: 1, window: options.window)
        try registers(bench, usual: options.bulkRate * 10, into: &report)
        try bench.pause(.seconds(3))
        try calls(bench, usual: options.bulkRate / 2, into: &report)
        try bench.close()
    }

    private static func registers(_ bench: Workbench, usual rate: Double, into report: inout Report)
        throws(BenchmarkError)
    {
        let client = bench.registers.client
        var cseq = 2
        var next = 0
        let phase = Phase(bench, name: "REGISTERs") {
            client.register(next, cseq: cseq)
            next += 1
            if next == users { (next, cseq) = (0, cseq + 1) }
        } counts: {
            (client.accepted, client.refused, client.latencies)
        } begin: {
            client.forgetCounts()
        }
        try phase.run(usual: rate, into: &report)
    }

    private static func calls(_ bench: Workbench, usual rate: Double, into report: inout Report) throws(BenchmarkError)
    {
        let calls = try SteadyCalls(daemon: bench.daemon.endpoint, users: phones, on: bench.loop)
        try bench.pause(.seconds(1))
        let phase = Phase(bench, name: "calls") {
            calls.call()
        } counts: {
            (calls.taken, calls.refused, calls.latencies)
        } begin: {
            calls.begin()
        }
        try phase.run(usual: rate, into: &report)
        calls.close()
    }

    /// One kind of load: REGISTERs or calls.
    private struct Phase {
        let bench: Workbench
        let name: String
        let send: () -> Void
        let counts: () -> (done: Int, refused: Int, latencies: Samples)
        let begin: () -> Void

        init(
            _ bench: Workbench, name: String, send: @escaping () -> Void,
            counts: @escaping () -> (done: Int, refused: Int, latencies: Samples), begin: @escaping () -> Void
        ) {
            (self.bench, self.name, self.send, self.counts, self.begin) = (bench, name, send, counts, begin)
        }

        func run(usual rate: Double, into report: inout Report) throws(BenchmarkError) {
            let usual = try load(at: rate, "at the usual \(Int(rate))/s", into: &report)
            let tenfold = try load(at: rate * 10, "at ten times that", into: &report)
            report.add("overload", "\(name): goodput at ten times, of the usual", "ratio", tenfold / max(usual, 1))
            // The seconds from the end of the high load until nine of ten requests are served again.
            var seconds = 0
            while seconds < recovery, try load(at: rate, nil, for: .seconds(1), into: &report) < 0.9 * rate {
                seconds += 1
            }
            report.add("overload", "\(name): back to normal after", "s", Double(seconds))
        }

        private func load(
            at rate: Double, _ words: String?, for time: Duration = OverloadBenchmark.time, into report: inout Report
        ) throws(BenchmarkError) -> Double {
            begin()
            var hasEnded = false
            let pacer = try Pacer(on: bench.loop, rate: rate, count: Int(rate * time.seconds)) { _ in
                send()
            } ended: {
                hasEnded = true
            }
            let start = bench.loop.now
            while !hasEnded { try bench.pause(.milliseconds(50)) }
            let elapsed = (bench.loop.now - start).seconds
            let (done, refused, latencies) = counts()
            let goodput = Double(done) / elapsed
            if let words {
                report.add("overload", "\(name) \(words): offered", "/s", Double(pacer.done) / elapsed)
                report.add("overload", "\(name) \(words): served", "/s", goodput)
                report.add("overload", "\(name) \(words): refused", "/s", Double(refused) / elapsed)
                report.add("overload", "\(name) \(words): answer p50", "ms", latencies.percentile(50).milliseconds)
                report.add("overload", "\(name) \(words): answer p99", "ms", latencies.percentile(99).milliseconds)
            }
            return goodput
        }
    }
}
