/// Runs the selected benchmarks in their order.
package enum BenchmarkRun {
    /// Runs the selected benchmarks in their order.
    ///
    /// - Parameters:
    ///   - options: the selected benchmarks and their parameters.
    ///   - allocationCount: returns the number of heap allocations of this thread so far.
    /// - Returns: the results.
    /// - Throws: ``BenchmarkError`` if a benchmark could not be finished.
    package static func run(
        _ options: BenchmarkOptions, allocationCount: @escaping () -> UInt64
    ) throws(BenchmarkError) -> Report {
        var report = Report(machine: Machine())
        for name in options.names {
            switch name {
            case .register: try RegisterBenchmark.run(options, into: &report)
            case .hold: try HoldBenchmark.run(options, into: &report)
            case .slow: try SlowProviderBenchmark.run(options, into: &report)
            case .api: try APIBenchmark.run(options, into: &report)
            case .tls: try TLSBenchmark.run(options, into: &report)
            case .idle: try IdleBenchmark.run(options, into: &report)
            case .storm: try TLSBenchmark.storm(options, into: &report)
            case .overload: try OverloadBenchmark.run(options, into: &report)
            case .memory: try MemoryBenchmark.run(options, into: &report)
            case .allocations: try AllocationBenchmark.run(options, allocationCount, into: &report)
            case .instructions: try InstructionBenchmark.run(options, into: &report)
            case .upstream: try UpstreamBenchmark.run(options, into: &report)
            case .days: DayRun.run(options, into: &report)
            case .push: try PushBenchmark.run(options, allocationCount, into: &report)
            }
        }
        return report
    }
}
