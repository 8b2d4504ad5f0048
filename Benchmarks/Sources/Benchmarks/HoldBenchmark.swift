/// Measures the times from INVITE to push and from REGISTER to INVITE, and checks that each held call reaches its
/// phone.
enum HoldBenchmark {
    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        // The part of the benchmark at the low rate lasts two seconds.
        let calm = max(20, Int(options.lowRate * 2))
        let bench = try Workbench(options, calls: calm + options.calls)
        _ = try bench.registers.run(0..<(calm + options.calls), cseq: 1, window: options.window)
        let low = "at \(Int(options.lowRate))/s"
        try round(bench, 0..<calm, rate: options.lowRate, low, into: &report)
        let high = "at \(Int(options.bulkRate))/s"
        try round(bench, calm..<(calm + options.calls), rate: options.bulkRate, high, into: &report)
        try bench.close()
    }

    private static func round(
        _ bench: Workbench, _ users: Range<Int>, rate: Double, _ name: String, into report: inout Report
    ) throws(BenchmarkError) {
        let before = try bench.daemon.figures()
        let held = try bench.calls.hold(users, rate: rate)
        let pushes = bench.calls.pushLatencies
        // Only phones with their own sockets are measured, because a REGISTER on a shared socket releases the calls of
        // all its phones. If the system allows too few file descriptors, some phones share a socket.
        let alone = users.clamped(to: bench.alone)
        try bench.calls.wake(alone, rate: rate)
        let (wakes, again, completed) = (bench.calls.wakeLatencies, bench.calls.sentAgain, bench.calls.completed)
        let rest = alone.upperBound..<users.upperBound
        if !rest.isEmpty { try bench.calls.wake(rest, rate: rate) }
        let after = try bench.daemon.figures()
        report.add("hold", "\(name), held at once", "calls", Double(held))
        let all = completed + (rest.isEmpty ? 0 : bench.calls.completed)
        report.add("hold", "\(name), completed of \(users.count)", "calls", Double(all))
        report.add("hold", "\(name), push", pushes)
        report.add("hold", "\(name), woken one by one", "calls", Double(alone.count))
        report.add("hold", "\(name), wake", wakes)
        report.add(
            "hold", "\(name), daemon's CPU", "µs/call", (after.cpu - before.cpu).seconds * 1e6 / Double(users.count))
        report.add("hold", "\(name), sent again", "messages", Double(again))
        complain(of: bench, users, into: &report)
    }

    private static let complaintLimit = 20

    private static func complain(of bench: Workbench, _ users: Range<Int>, into report: inout Report) {
        let lost = users.filter { !bench.calls.calls[$0].isAcknowledged }
        guard !lost.isEmpty else { return }
        report.complain(
            "\(lost.count) of \(users.count) calls LOST; the daemon's files are in \(bench.daemon.keepFolder())")
        for user in lost.prefix(complaintLimit) {
            report.complain("LOST \(MessageTexts.callID(of: user)): \(bench.calls.calls[user].story)")
        }
    }
}
