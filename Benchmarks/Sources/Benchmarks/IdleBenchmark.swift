/// Measures how much resident memory an idle connection adds to the daemon.
///
/// Many connections are opened, so that memory reserved by the allocator adds only a few bytes to each connection.
enum IdleBenchmark {
    /// The maximum number of connections that are being opened at the same time.
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
        // The first connections allocate memory that all connections share.
        _ = try load.open(window, window: window)
        let empty = try bench.daemon.figures().residentBytes
        _ = try load.open(options.phones, window: window, keeps: true)
        let full = try bench.daemon.figures().residentBytes
        try bench.close()
        return Double(full - empty) / Double(options.phones)
    }
}
