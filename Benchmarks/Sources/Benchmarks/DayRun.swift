import TestSupport

/// Runs many simulated days, which find errors of the engine that the tests' sixteen days do not find.
enum DayRun {
    static func run(_ options: BenchmarkOptions, into report: inout Report) {
        var all = SimulatedWorld.Statistics()
        var faulty = 0
        for seed in options.seeds {
            let world = SimulatedWorld(seed: seed, story: options.tellsStory ? { print($0) } : nil)
            world.run()
            all.add(world.statistics)
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
        report.add("days", "digest of all events", "", Double(all.digest % 1_000_000_007))
    }
}
