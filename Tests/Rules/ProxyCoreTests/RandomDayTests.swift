import SIPGrammar
import Testing
import TestSupport

/// The suite is serialized, because each random day uses a thread for seconds while other tests wait in real time.
@Suite("Whole days in a simulated network", .serialized)
struct RandomDayTests {
    @Test(arguments: Array(0..<16) + [474, 943, 994])
    func `no rule is broken on a random day`(seed: UInt64) {
        let world = SimulatedWorld(seed: seed)
        world.run()
        #expect(world.violations.isEmpty)
        // The simulated day must have many events, because a day with few events would prove little.
        let day = world.statistics
        #expect(day.answered > 20 && day.records > 200)
        // The lower bounds do not apply to simulated days whose phones are called immediately, because such phones miss
        // fewer calls.
        if !world.plan.ringsLiveFlows { #expect(day.cancelled > 20 && day.reports > 15 && day.pushes > 100, "\(day)") }
    }

    @Test func `on some days the network is interrupted and the disk is full`() {
        let world = SimulatedWorld(seed: 6)
        world.run()
        #expect(world.refusedCommits > 5)
        #expect(world.interruptedMessages > 50)
        #expect(world.violations.isEmpty)
    }

    @Test func `on some days phones call by way of the PBX, over crashes`() {
        var ends: [Status] = []
        for seed: UInt64 in [1, 4, 5, 7, 10, 13] {
            let world = SimulatedWorld(seed: seed)
            world.run()
            #expect(world.violations.isEmpty)
            ends += world.plan.crashes > 0 ? world.outgoingEnds : []
        }
        #expect(ends.count { $0 == 200 } > 2 && ends.contains(486) && ends.contains(487), "\(ends)")
    }

    @Test(arguments: [12, 28, 44, 60] as [UInt64])
    func `on some days the PBX owns the users, loses their registrations, and calls their tokens`(seed: UInt64) {
        let world = SimulatedWorld(seed: seed)
        world.run()
        #expect(world.plan.registersAtPBX && world.violations.isEmpty, "\(world.violations.prefix(5))")
        #expect(world.registrations.accepted > 50)
        // A user is without a contact at the PBX only for a while after each restart of the PBX.
        #expect(world.calls.count > 120 && world.registrations.voicemails < 80, "\(world.registrations.voicemails)")
    }

    @Test func `some calls of a day with references are for one phone`() {
        let world = SimulatedWorld(seed: 2)
        world.run()
        #expect(world.plan.announcesPURR && world.violations.isEmpty)
        #expect(world.calls.count { $0.isForOnePhone && $0.wasTaken } > 10)
    }
}
