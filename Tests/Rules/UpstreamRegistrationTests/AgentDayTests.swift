import Addressing
import Bytes
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping
import UpstreamRegistration

/// Tests the agent over whole simulated days, in which the PBX restarts, messages are lost, passwords change, and the
/// daemon crashes.
@Suite("Upstream agent: days")
struct AgentDayTests {
    @Test(arguments: 0..<6)
    func `at the end of each day every wakeable user has exactly one live binding`(seed: UInt64) {
        var random = SeededGenerator(seed: SeededGenerator().seeded(seed))
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.offersQop = random.chance(0.7)
        behaviour.marksStale = random.chance(0.7)
        behaviour.algorithms = random.chance(0.3) ? [.sha256, .md5] : [.md5]
        behaviour.nonceLife = .seconds(Int64.random(in: 5...5000, using: &random))
        behaviour.longestGrant = UInt32.random(in: 300...7200, using: &random)
        behaviour.refusesShort = random.chance(0.3)
        behaviour.shortestGrant = UInt32.random(in: 60...900, using: &random)
        behaviour.listedToo = random.chance(0.3) ? ["<sip:desk@10.0.0.9>;expires=30"] : []
        behaviour.answersQueries = random.chance(0.7)
        var world = AgentWorld(
            users: 30, rate: Int.random(in: 2...50, using: &random), seed: seed, behaviour: behaviour)
        for _ in 0..<2 {
            world.lossRate = random.chance(0.5) ? 0.05 : 0.3
            for _ in 0..<24 {
                stir(&world, &random)
                world.advance(by: .seconds(3600) + random.milliseconds(-300_000...300_000))
            }
            // For the last two hours of the day, the PBX answers normally and no messages are lost.
            world.lossRate = 0
            world.pbx.behaviour.isSilent = false
            world.pbx.behaviour.status = nil
            for (name, person) in world.people { world.pbx.passwords[name] = person.password }
            for name in world.people.keys.sorted() where world.state(name) == .refused || world.state(name) == .absent {
                world.perform { $0.retryOrdered(AgentWorld.upstream, user: ByteString(name), now: $1, into: &$2) }
            }
            world.advance(by: .seconds(7300))
            for (name, person) in world.people {
                #expect(
                    world.live(name) == (person.isWakeable ? 1 : 0), "\(name) \(String(describing: world.state(name)))")
                #expect(
                    world.state(name) == (person.isWakeable ? .registered : nil) || world.state(name) == .refreshing)
            }
            // The agent never sent a refused password again before the password had changed.
            #expect(world.pbx.wrongPasswords.values.allSatisfy { $0 <= 2 })
        }
    }

    private func stir(_ world: inout AgentWorld, _ random: inout SeededGenerator) {
        let name = "u\(Int.random(in: 0..<30, using: &random))"
        switch Int.random(in: 0..<12, using: &random) {
        case 0: world.crash(for: random.milliseconds(0...600_000))
        case 1: world.pbx.restartEmpty()
        case 2:
            world.pbx.behaviour.isSilent = true
            world.advance(by: random.milliseconds(0...5_000_000))
            if random.chance(0.5) { world.pbx.restartEmpty() }
            world.pbx.behaviour.isSilent = false
        case 3: world.end(name, random.chance(0.5) ? .noDevice : .userRemoved)
        case 4: world.register(name)
        case 5:
            world.setPassword("new\(random.next())", of: name)
            if random.chance(0.5) { world.pbx.passwords[name] = world.people[name]?.password }
        case 6: world.pbx.passwords[name] = "changed\(random.next())"
        case 7:
            world.pbx.behaviour.status = [403, 404, 500, 503, 486, 400].randomElement(using: &random)
            world.pbx.behaviour.rows =
                random.chance(0.3) ? ["Retry-After: \(Int.random(in: 0...9999, using: &random))"] : []
            world.advance(by: random.milliseconds(0...600_000))
            world.pbx.behaviour.status = nil
        case 8:
            world.pbx.behaviour.listsOurs = false
            world.advance(by: random.milliseconds(0...900_000))
            world.pbx.behaviour.listsOurs = true
        case 9:
            for _ in 0..<20 {
                world.end(name)
                world.advance(by: random.milliseconds(0...100))
                world.register(name)
                world.advance(by: random.milliseconds(0...100))
            }
        case 10: world.pbx.passwords[name] = nil
        default: break
        }
    }
}

extension SeededGenerator {
    /// The seed of simulated world `number`, which differs in each run of the tests.
    func seeded(_ number: UInt64) -> UInt64 {
        var copy = self
        return copy.next() &+ number
    }
}
