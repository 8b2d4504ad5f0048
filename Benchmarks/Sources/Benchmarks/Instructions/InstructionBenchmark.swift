import Foundation

/// Counts the instructions that the daemon executes for each step of a registration and of a call, and for a connection.
///
/// Under callgrind, the daemon is many times slower, so it handles several steps in one iteration of its loop, as under
/// load.
enum InstructionBenchmark {
    private static let users = 400
    private static let calls = 200
    /// The maximum number of concurrent steps.
    private static let window = 16
    /// The number of calls and of wake-ups per second.
    private static let rate = 40.0
    /// The pause after a step, in which its transactions and calls end (RFC 3261 section 17, 64 times T1). The
    /// benchmark counts the instructions of the pause for the step before.
    private static let aftermath: Duration = .seconds(35)
    /// The pause in which refreshed contacts reach the disk; the instructions of the pause count for no step.
    private static let untilWritten: Duration = .seconds(20)

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let counts = try counts(options)
        for (name, count) in counts { report.add("instructions", name, "each", count) }
        guard let file = options.limits else { return }
        for complaint in try AgreedLimits(contentsOf: file).complaints(about: counts, of: "instructions") {
            report.complain(complaint)
        }
    }

    private static func counts(_ options: BenchmarkOptions) throws(BenchmarkError) -> [(name: String, count: Double)] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sippushd-count-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            throw BenchmarkError("\(folder.path) cannot be made: \(error)")
        }
        let tool = try Callgrind(daemon: options.daemon, in: folder)
        let bench = try Workbench(options, calls: 2 * calls, servesAPI: true, servesStreams: true, under: tool)
        let process = bench.daemon.processID
        var counts: [(name: String, count: Double)] = []

        func step(_ name: String, _ count: Int, _ body: () throws(BenchmarkError) -> Void) throws(BenchmarkError) {
            _ = try tool.instructions(of: process)
            try body()
            counts.append((name, try tool.instructions(of: process) / Double(count)))
        }

        // The first round only warms up tables, caches, connections and the store.
        _ = try bench.registers.run(0..<2 * calls, cseq: 1, window: window)
        _ = try bench.calls.hold(0..<calls, rate: 10 * rate)
        try bench.calls.wake(0..<calls, rate: 10 * rate)
        try bench.pause(aftermath)
        try bench.calls.hangUp(0..<calls, rate: 10 * rate)
        try tool.start(process)
        _ = try bench.registers.run(calls..<calls + window, cseq: 2, window: window)

        let new = 2 * calls..<2 * calls + users
        try step("register-first", users) { () throws(BenchmarkError) in
            _ = try bench.registers.run(new, cseq: 1, window: window)
        }
        try step("register-refresh", users) { () throws(BenchmarkError) in
            _ = try bench.registers.run(new, cseq: 2, window: window)
        }
        try step("refresh-written", users) { () throws(BenchmarkError) in try bench.pause(untilWritten) }
        let called = calls..<2 * calls
        try step("call-held", calls) { () throws(BenchmarkError) in _ = try bench.calls.hold(called, rate: rate) }
        try step("call-woken", calls) { () throws(BenchmarkError) in
            try bench.calls.wake(called, rate: rate)
            try bench.pause(aftermath)
        }
        try step("call-ended", calls) { () throws(BenchmarkError) in try bench.calls.hangUp(called, rate: rate) }
        counts.append(("call", counts.suffix(3).reduce(0) { $0 + $1.count }))
        let lost = called.count { !bench.calls.calls[$0].hasEnded }
        guard lost == 0 else { throw BenchmarkError("\(lost) of \(calls) calls LOST while instructions were counted") }

        let reports = try ReportLoad(at: bench.daemon)
        reports.start(connections: window)
        var result = ReportLoad.Result()
        try step("token-report", 1) { () throws(BenchmarkError) in
            try bench.pause(.seconds(3))
            result = try reports.stop()
        }
        counts[counts.count - 1].count /= Double(max(result.count, 1))
        reports.close()

        let plain = try ConnectionLoad(at: bench.daemon, isSecure: false)
        defer { plain.close() }
        let secure = try ConnectionLoad(at: bench.daemon, isSecure: true)
        defer { secure.close() }
        /// Connections that end when their first keep-alive is answered. In the pause, the daemon notices their ends.
        func open(_ load: ConnectionLoad, _ count: Int, resumes: Bool = false) throws(BenchmarkError) {
            let result = try load.open(count, window: window, resumes: resumes)
            guard result.resumed == (resumes ? count : 0) else {
                throw BenchmarkError("\(result.resumed) of \(count) handshakes were resumed")
            }
            try bench.pause(.seconds(1))
        }
        // The threads that have answered token reports end after some seconds without work. The end of a thread takes 1.7
        // million instructions, which are no part of a connection.
        try bench.pause(.seconds(10))
        // The first connections start the thread for handshakes, and fill OpenSSL's tables.
        try open(plain, window)
        try open(secure, window)
        try open(secure, window, resumes: true)
        try step("connection", calls) { () throws(BenchmarkError) in try open(plain, calls) }
        try step("handshake-full", calls) { () throws(BenchmarkError) in try open(secure, calls) }
        try step("handshake-resumed", calls) { () throws(BenchmarkError) in try open(secure, calls, resumes: true) }
        try bench.close()
        return counts
    }
}
