/// What an idle connection adds to the daemon's resident memory.
///
/// Over thousands of connections the pages that the allocator has asked for in advance are a few bytes for each.
enum IdleBenchmark {
    /// Connections on their way.
    private static let window = 64

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        var sizes: [(name: String, count: Double)] = []
        for (name, isSecure) in [("idle-tcp", false), ("idle-tls", true)] {
            sizes.append((name, try bytes(isSecure: isSecure, options)))
        }
        for (name, bytes) in sizes { report.add("idle", "\(name), of \(options.phones)", "bytes", bytes) }
        guard let file = options.limits else { return }
        for complaint in try AgreedLimits(contentsOf: file).complaints(about: sizes, of: "bytes") {
            report.complain(complaint)
        }
    }

    private static func bytes(isSecure: Bool, _ options: BenchmarkOptions) throws(BenchmarkError) -> Double {
        let bench = try Workbench(options, servesStreams: true)
        let load = try ConnectionLoad(at: bench.daemon, isSecure: isSecure)
        defer { load.close() }
        // What all of them share is there then.
        _ = try load.open(window, window: window)
        let empty = try bench.daemon.figures().residentBytes
        _ = try load.open(options.phones, window: window, keeps: true)
        let full = try bench.daemon.figures().residentBytes
        try bench.close()
        return Double(full - empty) / Double(options.phones)
    }
}
