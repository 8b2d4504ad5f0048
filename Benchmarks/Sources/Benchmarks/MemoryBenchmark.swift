/// Measures how much resident memory a contact and a held call add to the daemon.
enum MemoryBenchmark {
    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let calls = min(options.calls, options.bindings)
        let bench = try Workbench(options, calls: calls, wakesPhones: false)
        let empty = try bench.daemon.figures().residentBytes
        _ = try bench.registers.run(0..<options.bindings, cseq: 1, window: options.window)
        let registered = try bench.daemon.figures().residentBytes
        let held = try bench.calls.hold(0..<calls, rate: options.bulkRate)
        let waiting = try bench.daemon.figures().residentBytes
        try bench.close()
        report.add("memory", "at start", "MB", Double(empty) / 1e6)
        report.add(
            "memory", "per binding, of \(options.bindings)", "bytes",
            Double(registered - empty) / Double(options.bindings))
        report.add(
            "memory", "per held call, of \(held)", "bytes", Double(waiting - registered) / Double(max(1, held)))
        if held < calls { report.complain("only \(held) of \(calls) calls were held") }
    }
}
