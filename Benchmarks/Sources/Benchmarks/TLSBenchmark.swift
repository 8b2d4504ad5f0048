/// Measures full and resumed TLS handshakes, TCP connections, and REGISTERs over many connections. A further
/// measurement shows whether calls become slower when all phones connect together.
enum TLSBenchmark {
    /// The maximum number of connections that are being opened at the same time.
    private static let window = 64
    /// The number of connections that a storm opens at the same time: handshakes always wait, but none exceeds its time
    /// limit.
    private static let stormWindow = 500
    /// The number of handshakes of each kind that show what OpenSSL needs alone.
    private static let memoryCount = 1000
    private static let calls = 500
    private static let rate = 200.0

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        try opening(options, into: &report)
        try HandshakeBenchmark.run(options, into: &report)
        try registering(options, into: &report)
    }

    // MARK: Opening and registering

    private static func opening(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let bench = try Workbench(options, servesStreams: true)
        let secure = try ConnectionLoad(at: bench.daemon, isSecure: true)
        defer { secure.close() }
        let plain = try ConnectionLoad(at: bench.daemon, isSecure: false)
        defer { plain.close() }
        var full = Rounds()
        var resumed = Rounds()
        var accepted = Rounds()
        let memory = try MemoryHandshakes()
        var fullAlone: [Double] = []
        var resumedAlone: [Double] = []
        // The first round warms up the daemon, and its results are dropped.
        for round in 0...options.rounds {
            let long = try measure(bench) { () throws(BenchmarkError) in
                try secure.open(options.phones, window: window)
            }
            let short = try measure(bench) { () throws(BenchmarkError) in
                try secure.open(options.phones, window: window, resumes: true)
            }
            guard long.result.resumed == 0, short.result.resumed == options.phones else {
                throw BenchmarkError(
                    "\(long.result.resumed) and \(short.result.resumed) of \(options.phones) handshakes were resumed")
            }
            let tcp = try measure(bench) { () throws(BenchmarkError) in
                try plain.open(2 * options.phones, window: window)
            }
            let longAlone = try memory.run(memoryCount)
            let shortAlone = try memory.run(memoryCount, resumes: true)
            guard longAlone.resumed == 0, shortAlone.resumed == memoryCount else {
                throw BenchmarkError("in memory, \(shortAlone.resumed) of \(memoryCount) handshakes were resumed")
            }
            // The kernel keeps the ports of ended connections for a second.
            try bench.pause(.seconds(1))
            guard round > 0 else { continue }
            full.add(long)
            resumed.add(short)
            accepted.add(tcp)
            fullAlone.append(longAlone.time.seconds * 1e6 / Double(memoryCount))
            resumedAlone.append(shortAlone.time.seconds * 1e6 / Double(memoryCount))
        }
        full.report("full handshakes", beside: fullAlone, into: &report)
        resumed.report("resumed handshakes", beside: resumedAlone, into: &report)
        accepted.report("TCP connections", into: &report)
        try bench.close()
    }

    private static func registering(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let bench = try Workbench(options, servesStreams: true)
        let load = try ConnectionLoad(at: bench.daemon, isSecure: true)
        defer { load.close() }
        _ = try load.open(options.phones, window: window, keeps: true)
        _ = try load.register(options.phones, window: options.window)
        var refreshes = Rounds()
        for round in 0...options.rounds {
            let measured = try measure(bench) { () throws(BenchmarkError) in
                try load.register(options.requests, window: options.window)
            }
            if round > 0 { refreshes.add(measured) }
        }
        refreshes.report("REGISTER over \(options.phones) TLS connections", into: &report)
        try bench.close()
    }

    private static func measure(
        _ bench: Workbench, _ work: () throws(BenchmarkError) -> ConnectionLoad.Result
    ) throws(BenchmarkError) -> Measured {
        let (before, threads) = (try bench.daemon.figures(), try ThreadFigures(of: bench.daemon.processID))
        let result = try work()
        let handshakes = try ThreadFigures(of: bench.daemon.processID).time(of: "handshakes", since: threads)
        return Measured(result: result, cpu: try bench.daemon.figures().cpu - before.cpu, handshakes: handshakes)
    }

    private struct Measured {
        let result: ConnectionLoad.Result
        /// The processor time of the whole daemon, and that of its threads for handshakes.
        let cpu: Duration
        let handshakes: Duration
    }

    private struct Rounds {
        private var rates: [Double] = []
        private var costs: [Double] = []
        private var handshakeCosts: [Double] = []
        private var tails: [Double] = []

        mutating func add(_ measured: Measured) {
            let count = Double(measured.result.count)
            rates.append(count / measured.result.time.seconds)
            costs.append(measured.cpu.seconds * 1e6 / count)
            handshakeCosts.append(measured.handshakes.seconds * 1e6 / count)
            tails.append(measured.result.latency.percentile(99).milliseconds)
        }

        /// Adds the figures to the report; `alone` is the processor time of OpenSSL's part, in microseconds.
        func report(_ kind: String, beside alone: [Double] = [], into report: inout Report) {
            report.add("tls", kind, "/s", rates)
            report.add("tls", kind + ", daemon's CPU", "µs", costs)
            if handshakeCosts.median > 0 {
                report.add("tls", kind + ", CPU of the handshake threads", "µs", handshakeCosts)
            }
            if alone.median > 0 {
                report.add("tls", kind + ", CPU of OpenSSL alone, in memory", "µs", alone)
                report.add(
                    "tls", kind + ", daemon's CPU, of OpenSSL's alone", "ratio", costs.median / alone.median)
            }
            report.add("tls", kind + ", p99", "ms", tails)
        }
    }

    // MARK: All at once

    /// Measures calls while many phones connect at the same time (a storm).
    ///
    /// The thread that plays the phones gets only spare processor time, because real phones use none of this machine's.
    /// The measuring thread plays the PBX and the push gateway, and runs as soon as an event arrives.
    ///
    /// Calls are measured alternately without a storm, with a storm on another daemon, and with a storm on their own
    /// daemon. A storm on another daemon delays calls only because both daemons share the machine.
    static func storm(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let users = 4 * calls * options.rounds
        let bench = try Workbench(options, calls: users, servesStreams: true)
        _ = try bench.registers.run(0..<users, cseq: 1, window: options.window)
        bench.goesFirst()
        let twin = try bench.startTwin(options)
        let load = try ConnectionLoad(at: bench.daemon, isSecure: true, givesWay: true)
        defer { load.close() }
        let otherLoad = try ConnectionLoad(at: twin, isSecure: true, givesWay: true)
        defer { otherLoad.close() }
        var alone = Calls()
        var apart = Calls()
        var beside = Calls()
        var endsApart = Calls()
        var ends = Calls()
        for number in 0..<options.rounds {
            let start = 4 * calls * number
            try alone.add(bench, start..<start + calls, beside: nil, options)
            try apart.add(bench, start + calls..<start + 2 * calls, beside: otherLoad, options)
            try beside.add(bench, start + 2 * calls..<start + 3 * calls, beside: load, options)
            let middle = start + 7 * calls / 2
            try endsApart.add(bench, start + 3 * calls..<middle, besideEndsOf: otherLoad, options)
            try ends.add(bench, middle..<start + 4 * calls, besideEndsOf: load, options)
        }
        let storm = "\(options.phones) handshakes, \(stormWindow) at a time"
        alone.report("alone", into: &report)
        apart.report("beside \(storm) at another daemon", into: &report)
        beside.report("beside \(storm)", into: &report)
        endsApart.report("beside the ends of \(options.phones) connections at another daemon", into: &report)
        ends.report("beside the ends of \(options.phones) connections", into: &report)
        for (name, other) in [("alone", alone), ("beside another daemon's", apart)] {
            report.add(
                "storm", "push p99 beside the storm, of p99 \(name)", "ratio", ratio(beside.pushes, other.pushes))
            report.add("storm", "wake p99 beside the storm, of p99 \(name)", "ratio", ratio(beside.wakes, other.wakes))
        }
        let lost = (0..<users).count { !bench.calls.calls[$0].isAcknowledged }
        if lost > 0 { report.complain("\(lost) of \(users) calls LOST") }
        try twin.stop()
        try bench.close()
    }

    private static func ratio(_ beside: [Double], _ alone: [Double]) -> Double {
        beside.median / max(alone.median, 0.001)
    }

    private struct Calls {
        /// The 99th percentile of the push latency in each round, in milliseconds.
        private(set) var pushes: [Double] = []
        private(set) var wakes: [Double] = []
        private var storms: [Double] = []

        mutating func add(
            _ bench: Workbench, _ users: Range<Int>, beside load: ConnectionLoad?, _ options: BenchmarkOptions
        ) throws(BenchmarkError) {
            try during(load, bench, options) { () throws(BenchmarkError) in _ = try bench.calls.hold(users, rate: rate)
            }
            pushes.append(bench.calls.pushLatencies.percentile(99).milliseconds)
            try during(load, bench, options) { () throws(BenchmarkError) in try bench.calls.wake(users, rate: rate) }
            wakes.append(bench.calls.wakeLatencies.percentile(99).milliseconds)
        }

        /// Measures calls while all connections end together, a fifth of a second after the first call. The calls are
        /// few, so that most of them arrive while the connections end.
        mutating func add(
            _ bench: Workbench, _ users: Range<Int>, besideEndsOf load: ConnectionLoad, _ options: BenchmarkOptions
        ) throws(BenchmarkError) {
            let middle = users.lowerBound + users.count / 2
            let (first, second) = (users.lowerBound..<middle, middle..<users.upperBound)
            _ = try load.open(options.phones, window: window, keeps: true)
            load.startClosing(after: .milliseconds(200))
            _ = try bench.calls.hold(first, rate: rate)
            pushes.append(bench.calls.pushLatencies.percentile(99).milliseconds)
            _ = try load.finish()
            _ = try bench.calls.hold(second, rate: rate)
            try bench.calls.wake(first, rate: rate)
            _ = try load.open(options.phones, window: window, keeps: true)
            load.startClosing(after: .milliseconds(200))
            try bench.calls.wake(second, rate: rate)
            wakes.append(bench.calls.wakeLatencies.percentile(99).milliseconds)
            _ = try load.finish()
            try bench.pause(.seconds(1))
        }

        private mutating func during(
            _ load: ConnectionLoad?, _ bench: Workbench, _ options: BenchmarkOptions,
            _ work: () throws(BenchmarkError) -> Void
        ) throws(BenchmarkError) {
            load?.startOpening(options.phones, window: stormWindow, keeps: true)
            try work()
            guard let load else { return }
            storms.append(try load.finish().time.seconds)
            try load.closeAll()
            // Before the next measurement, the daemon must have handled the ends of all connections.
            try bench.pause(.seconds(1))
        }

        func report(_ name: String, into report: inout Report) {
            report.add("storm", "INVITE to push at 200/s, \(name), p99", "ms", pushes)
            report.add("storm", "REGISTER to INVITE at 200/s, \(name), p99", "ms", wakes)
            if !storms.isEmpty { report.add("storm", "\(name), all are open after", "s", storms) }
        }
    }
}
