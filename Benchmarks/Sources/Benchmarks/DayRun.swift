import TestSupport

/// Runs many simulated days, which find errors of the engine that the tests' sixteen days do not find.
enum DayRun {
    static func run(_ options: BenchmarkOptions, into report: inout Report) {
        var all = SimulatedWorld.Statistics()
        var faulty = 0
        var counts = ClusterCounts()
        for seed in options.seeds {
            let world = SimulatedWorld(
                seed: seed, nodes: options.nodes, story: options.tellsStory ? { print($0) } : nil)
            world.run()
            all.add(world.statistics)
            if let cluster = world.cluster { counts.add(cluster) }
            if !world.violations.isEmpty { faulty += 1 }
            for violation in world.violations { report.complain("day \(seed): \(violation)") }
        }
        report.add("days", "days", "", Double(options.seeds.count))
        report.add("days", "days with a violated invariant", "", Double(faulty))
        report.add("days", "calls answered", "", Double(all.answered))
        report.add("days", "calls refused", "", Double(all.refused))
        report.add("days", "calls given up", "", Double(all.cancelled))
        report.add("days", "calls unanswered", "", Double(all.unanswered))
        report.add("days", "calls that a crash ended", "", Double(all.withoutFinal))
        report.add("days", "missed calls told", "", Double(all.reports))
        report.add("days", "calls pushed", "", Double(all.pushes))
        report.add("days", "records", "", Double(all.records))
        if options.nodes > 1 { counts.write(into: &report) }
        report.add("days", "digest of all events", "", Double(all.digest % 1_000_000_007))
    }
}

/// The numbers of events of simulated clusters.
private struct ClusterCounts {
    private var exchanged = 0
    private var crossed = 0
    private var takenOver = 0
    private var resumed = 0
    private var expected = 0

    mutating func add(_ cluster: SimulatedClusterState) {
        exchanged += cluster.exchanged
        crossed += cluster.crossed
        takenOver += cluster.takenOver
        resumed += cluster.resumed
        expected += cluster.expected
    }

    func write(into report: inout Report) {
        report.add("days", "messages between nodes", "", Double(exchanged))
        report.add("days", "INVITEs to other nodes", "", Double(crossed))
        report.add("days", "phones that came to another node", "", Double(expected))
        report.add("days", "calls taken over", "", Double(takenOver))
        report.add("days", "calls resumed", "", Double(resumed))
    }
}
