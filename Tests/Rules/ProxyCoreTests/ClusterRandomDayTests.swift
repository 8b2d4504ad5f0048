import TestSupport
import Testing

/// The suite is serialized for the same reason as ``RandomDayTests``.
@Suite("Whole days of a cluster in a simulated network", .serialized)
struct ClusterRandomDayTests {
    /// In the last two days, a 430 came from a node without a sign of life, and a node restarted after a cancelled call.
    @Test(arguments: [0, 1, 2, 3, 5, 12, 346, 783] as [UInt64])
    func `no rule is broken on a random day of three nodes`(seed: UInt64) {
        let world = SimulatedWorld(seed: seed, nodes: 3)
        world.run()
        #expect(world.violations.isEmpty, "\(world.violations.prefix(5))")
        // The simulated day must have many events, because a day with few events would prove little.
        #expect(world.statistics.answered > 10 && world.statistics.pushes > 20, "\(world.statistics)")
        guard let cluster = world.cluster else { return #expect(Bool(false), "a world of three nodes is a cluster") }
        #expect(cluster.crossed > 20 && cluster.expected > 10, "\(cluster.crossed) \(cluster.expected)")
        if cluster.faults.kills > 0 { #expect(cluster.takenOver + cluster.resumed > 0) }
    }

    @Test func `a seed repeats its day`() {
        let digests = (0..<2).map { _ in
            let world = SimulatedWorld(seed: 6, nodes: 3)
            world.run()
            return world.statistics.digest
        }
        #expect(digests[0] == digests[1])
    }
}
