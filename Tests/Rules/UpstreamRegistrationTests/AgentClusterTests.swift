import Addressing
import Bytes
import Registration
import Testing
import Timekeeping
import UpstreamRegistration

/// Tests the agent of a node that loses the duties of the cluster, and gets them again.
@Suite("Upstream agent: duties of a cluster")
struct AgentClusterTests {
    private func suspend(_ world: inout AgentWorld) {
        world.perform { $0.suspended(now: $1, into: &$2) }
    }

    private func resume(_ world: inout AgentWorld, above ceiling: UInt32 = 0) {
        world.perform { $0.resumed(above: ceiling, now: $1, into: &$2) }
    }

    private func isFound(_ name: String, by world: inout AgentWorld, lastSign: UnixTime? = nil) -> Bool {
        var isKnown = false
        let user = world.user(name)
        world.perform { isKnown = $0.userFound(user, lastSign: lastSign ?? $1.date, now: $1, into: &$2) }
        return isKnown
    }

    @Test func `a search revives neither a removed user nor a user who was silent for too long`() {
        var world = AgentWorld(users: 2)
        world.advance(by: .seconds(60))
        world.pbx.behaviour.isSilent = true
        world.end("u0", .userRemoved)
        world.advance(by: .seconds(5))
        #expect(world.state("u0") == .ending && !isFound("u0", by: &world))
        // The user's contacts are read, and no account.
        let md5 = DigestAlgorithms(of: DigestAlgorithm.md5)
        // A source of users may have the user, but was not asked.
        for (algorithms, fingerprint) in [(DigestAlgorithms(), 0), (md5, nil)] as [(DigestAlgorithms, UInt32?)] {
            world.perform { agent, now, orders in
                agent.userIsWakeable(
                    WakeableUser(
                        upstream: AgentWorld.upstream, name: ByteString("u0"), algorithms: algorithms,
                        fingerprint: fingerprint, lastSign: now.date), now: now, into: &orders)
            }
            #expect(world.state("u0") == .ending)
        }
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(400))
        #expect(world.state("u0") == nil && world.live("u0") == 0)
        // The operator adds the user again.
        world.register("u0")
        world.advance(by: .seconds(5))
        #expect(world.state("u0") == .registered)
        #expect(isFound("new", by: &world, lastSign: world.now.date + .seconds(-31 * 86_400)))
        #expect(!isFound("new", by: &world, lastSign: world.now.date + .seconds(-29 * 86_400)))
    }

    @Test func `a sign-out of a user whom the search has not reached ends the binding of the earlier node`() {
        var world = AgentWorld(users: 1)
        world.advance(by: .seconds(60))
        suspend(&world)
        world.advance(by: .seconds(61))
        resume(&world)
        #expect(world.live("u0") == 1)
        world.perform { agent, now, orders in
            agent.deviceEnded(
                WakeableUser(
                    upstream: AgentWorld.upstream, name: ByteString("u0"),
                    algorithms: DigestAlgorithms(of: DigestAlgorithm.md5), fingerprint: 1,
                    lastSign: now.date, isFromEarlierRun: true), now: now, into: &orders)
        }
        world.advance(by: .seconds(5))
        #expect(world.live("u0") == 0 && world.state("u0") == nil)
    }

    @Test func `a suspended agent sends nothing and knows nobody, and goes on with its users`() {
        var world = AgentWorld(users: 20)
        world.advance(by: .seconds(60))
        let received = world.pbx.received
        suspend(&world)
        #expect(world.state("u0") == nil && !world.agent.isActive)
        world.register("u0")
        world.add("new", password: "x")
        world.end("u1")
        world.advance(by: .seconds(50))
        #expect(world.pbx.received == received)
        resume(&world)
        #expect(world.state("u0") == .registered && world.state("u1") == .registered && world.state("new") == nil)
        world.advance(by: .seconds(5))
        #expect(world.agent.counts[RegistrationState.registered] == 20)
    }

    @Test func `after a minute the users are forgotten, and the registrations stay at the PBX`() {
        var world = AgentWorld(users: 20)
        world.advance(by: .seconds(60))
        let received = world.pbx.received
        suspend(&world)
        world.advance(by: .seconds(61))
        #expect(world.agent.nextDeadline == nil && world.agent.counts[RegistrationState.registered] == 0)
        resume(&world)
        world.advance(by: .seconds(60))
        #expect(world.pbx.received == received && world.live("u0") == 1)
        world.register("u0", isFromEarlierRun: true)
        world.advance(by: .seconds(5))
        #expect(world.state("u0") == .registered && world.live("u0") == 1)
    }

    @Test func `a REGISTER that was under way is sent again, with a number above those of other nodes`() throws {
        var world = AgentWorld()
        world.keepsOrders = true
        world.pbx.passwords = ["bob": "pw"]
        world.pbx.behaviour.isSilent = true
        world.add("bob", password: "pw")
        world.advance(by: .seconds(3))
        suspend(&world)
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(30))
        #expect(world.live("bob") == 0)
        let last = try #require(world.sent.last?.cseq)
        resume(&world, above: last + 100_000)
        world.advance(by: .seconds(10))
        #expect(world.live("bob") == 1)
        #expect(try #require(world.sent.last?.cseq) > last + 100_000)
    }

    @Test func `a pass names the users whom it has not found, and in turn the users whom the PBX refuses`() {
        var world = AgentWorld(users: 5)
        world.pbx.passwords = ["u3": "other", "u4": "other"]
        world.pbx.passwords.merge((0..<3).map { ("u\($0)", "pw\($0)") }) { $1 }
        world.advance(by: .seconds(60))
        #expect(world.state("u3") == .refused && world.state("u4") == .refused)
        world.agent.beginPass()
        for name in ["u0", "u2", "u3"] {
            #expect(isFound(name, by: &world))
        }
        #expect(world.agent.unfound(limit: 10).map(\.name.string) == ["u1", "u4"])
        #expect(world.agent.unfound(limit: 1).count == 1)
        let turns = (0..<3).flatMap { _ in world.agent.refusedInTurn(limit: 1).map(\.name.string) }
        #expect(Set(turns) == ["u3", "u4"] && turns[0] == turns[2])
        #expect(world.agent.refusedInTurn(limit: 10).count == 2)
        // A search alone makes the PBX try no refused password again.
        world.advance(by: .seconds(60))
        #expect(world.pbx.wrongPasswords["u3"] == 1 && world.pbx.wrongPasswords["u4"] == 1)
    }
}
