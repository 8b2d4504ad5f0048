import Addressing
import Bytes
import Crypto
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping
import UpstreamRegistration

@Suite("Upstream agent")
struct AgentTests {
    @Test(arguments: [
        ([DigestAlgorithm.md5], true, "MD5"), ([.md5], false, "MD5"), ([.sha256, .md5], true, "SHA-256"),
        ([.md5, .sha256], true, "SHA-256"), ([.sha512_256, .md5], true, "MD5"), ([.sha256], false, "SHA-256"),
    ])
    func `a user is registered by the strongest algorithm with a known hash`(
        algorithms: [DigestAlgorithm], offersQop: Bool, used: String
    ) {
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.algorithms = algorithms
        behaviour.offersQop = offersQop
        var world = AgentWorld(users: 1, behaviour: behaviour)
        world.advance(by: .seconds(2))
        #expect(world.live("u0") == 1)
        #expect(world.state("u0") == .registered)
        #expect(world.pbx.usedAlgorithms == [used])
        #expect(world.pbx.received == 2)
    }

    @Test func `without a hash for the offered algorithm nothing is sent, and the operator is told`() {
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.algorithms = [.sha512_256]
        var world = AgentWorld(users: 1, behaviour: behaviour)
        world.advance(by: .seconds(100))
        #expect(world.events.contains(.refused(world.user("u0"), .algorithm)))
        #expect(world.pbx.received == 1)
        world.people["u0"]?.algorithms = []
        world.people["u0"]?.fingerprint = 9
        world.register("u0")
        world.advance(by: .seconds(100))
        #expect(world.events.contains(.refused(world.user("u0"), .noPassword)))
        #expect(world.pbx.received == 1)
    }

    @Test func `refreshes come between 50 and 80 percent of the granted time, spread`() throws {
        var world = AgentWorld(users: 200)
        world.pbx.behaviour.longestGrant = 1000
        world.pbx.behaviour.asksPassword = false
        world.pbx.behaviour.answersQueries = false
        world.advance(by: .seconds(20))
        let before = world.pbx.sendTimes.count
        world.advance(by: .seconds(970))
        let refreshes = world.pbx.sendTimes[before...].filter { $0 < Instant(nanoseconds: 810_000_000_000) }
        let first = try #require(refreshes.first)
        #expect(first >= Instant(nanoseconds: 500_000_000_000))
        #expect(refreshes.count >= 195)
        // The agent spreads the refreshes evenly, so about a tenth of them is in the middle tenth of the time.
        let middle = refreshes.count {
            $0 > Instant(nanoseconds: 635_000_000_000) && $0 < Instant(nanoseconds: 665_000_000_000)
        }
        #expect(middle > 5 && middle < 45)
        #expect(world.agent.counts.refreshLag.sum < .seconds(20))
    }

    @Test func `a kept nonce is used again while it is good`() {
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.nonceLife = .seconds(100_000)
        behaviour.answersQueries = false
        var world = AgentWorld(users: 1, behaviour: behaviour)
        world.advance(by: .seconds(20_000))
        #expect(world.agent.counts[.challenged] == 1)
        #expect(world.agent.counts[.refreshed] >= 6)
    }

    @Test(arguments: [true, false])
    func `an old nonce is answered once more, also where the PBX does not say stale`(marksStale: Bool) {
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.marksStale = marksStale
        var world = AgentWorld(users: 1, behaviour: behaviour)
        world.advance(by: .seconds(20_000))
        #expect(world.state("u0") == .registered)
        #expect(world.pbx.wrongPasswords.isEmpty)
        #expect(world.live("u0") == 1)
    }

    @Test func `423 raises the time that is asked for`() {
        var world = AgentWorld(users: 2, expires: 60)
        world.pbx.behaviour.refusesShort = true
        world.pbx.behaviour.shortestGrant = 300
        world.advance(by: .seconds(5))
        #expect(world.live("u0") == 1)
        #expect(world.live("u1") == 1)
        #expect(world.pbx.lastExpires == 300)
        #expect(world.agent.counts[.tooBrief] <= 2)
    }

    @Test func `an unknown user is not asked for again, except once an hour when a phone registers`() {
        var world = AgentWorld()
        world.add("bob", password: "p")
        world.advance(by: .seconds(7 * 86_400))
        #expect(world.state("bob") == .absent)
        let before = world.pbx.received
        for _ in 0..<60 {
            world.register("bob")
            world.advance(by: .seconds(60))
        }
        #expect(world.pbx.received - before <= 4)
        world.pbx.passwords["bob"] = "p"
        world.advance(by: .seconds(3600))
        world.register("bob")
        world.advance(by: .seconds(5))
        #expect(world.state("bob") == .registered)
    }

    @Test func `the last device gone ends the binding at once`() {
        for reason in [UpstreamEnd.noDevice, .userRemoved] {
            var world = AgentWorld(users: 2)
            world.advance(by: .seconds(60))
            world.end("u0", reason)
            world.advance(by: .milliseconds(400))
            #expect(world.live("u0") == 0)
            #expect(world.live("u1") == 1)
            #expect(world.pbx.lastExpires == 0)
            #expect(world.events.contains(.ended(world.user("u0"), reason)))
            #expect(world.state("u0") == nil)
            world.register("u0")
            world.advance(by: .seconds(2))
            #expect(world.live("u0") == 1)
        }
    }

    @Test func `a device that goes and returns while requests are under way leaves one binding`() {
        for pause in [0, 1, 5, 20, 40, 70, 100, 200] {
            var world = AgentWorld(users: 1)
            world.advance(by: .milliseconds(pause))
            world.end("u0")
            world.advance(by: .milliseconds(pause / 2))
            world.register("u0")
            world.advance(by: .seconds(5))
            #expect(world.live("u0") == 1, "\(pause)")
            world.end("u0")
            world.advance(by: .milliseconds(pause))
            world.register("u0")
            world.advance(by: .milliseconds(pause))
            world.end("u0")
            world.advance(by: .seconds(5))
            #expect(world.live("u0") == 0, "\(pause)")
            #expect(world.state("u0") == nil)
        }
    }

    @Test func `a user without a sign of life for 30 days is ended, with an event`() {
        var world = AgentWorld(users: 2)
        world.pbx.behaviour.answersQueries = false
        for _ in 0..<31 {
            world.advance(by: .seconds(86_400))
            world.register("u1")
        }
        #expect(world.live("u0") == 0)
        #expect(world.live("u1") == 1)
        #expect(world.events.contains(.ended(world.user("u0"), .noSignOfLife)))
    }

    @Test func `a silent server is passed over for the next one, and comes back`() {
        var world = AgentWorld(users: 10, pbxs: [.pbx(1), .pbx(2)])
        world.watchesByOptions = false
        world.pbxs[.pbx(1)]?.behaviour.isSilent = true
        world.advance(by: .seconds(30))
        for number in 0..<10 { #expect(world.pbxs[.pbx(2)]?.live("u\(number)", now: world.now.instant).count == 1) }
        #expect(
            world.events.contains {
                if case .serverFails(_, let server) = $0 { server.endpoint == .pbx(1) } else { false }
            })
        world.pbxs[.pbx(1)]?.behaviour.isSilent = false
        world.advance(by: .seconds(3600))
        for number in 0..<10 { #expect(world.live("u\(number)") == 1) }
    }

    @Test func `when a server goes down, its users are registered at the next one before their refresh`() {
        var world = AgentWorld(users: 20, pbxs: [.pbx(1), .pbx(2)])
        world.advance(by: .seconds(10))
        #expect((0..<20).allSatisfy { world.live("u\($0)") == 1 })
        world.pbxs[.pbx(1)]?.behaviour.isSilent = true
        // OPTIONS shows within 30 seconds that the server is down, but the next refreshes come only after half an hour.
        world.advance(by: .seconds(40))
        #expect((0..<20).allSatisfy { world.pbxs[.pbx(2)]?.live("u\($0)", now: world.now.instant).count == 1 })
        #expect(
            world.events.contains { if case .registersAgain(_, users: 20, .serverDown) = $0 { true } else { false } })
        world.pbxs[.pbx(1)]?.behaviour.isSilent = false
        world.pbxs[.pbx(1)]?.contacts = [:]
        world.advance(by: .seconds(60))
        #expect((0..<20).allSatisfy { world.live("u\($0)") == 1 })
        // The agent does not leave the only server, because it cannot register the users at another server.
        var alone = AgentWorld(users: 3)
        alone.advance(by: .seconds(10))
        let sent = alone.agent.counts.sent
        alone.pbx.behaviour.isSilent = true
        alone.advance(by: .seconds(60))
        #expect(alone.agent.counts.sent <= sent + 3)
        #expect((0..<3).allSatisfy { alone.state("u\($0)") == .registered })
    }

    @Test func `503 with Retry-After rests one server, and the other one serves`() {
        var world = AgentWorld(users: 10, pbxs: [.pbx(1), .pbx(2)])
        world.pbxs[.pbx(1)]?.behaviour.status = 503
        world.pbxs[.pbx(1)]?.behaviour.rows = ["Retry-After: 120 (maintenance)"]
        world.advance(by: .seconds(100))
        // When the server's first 503 came, a few REGISTERs to the server were already pending.
        #expect(world.pbxs[.pbx(1)]?.received ?? 0 <= 4)
        for number in 0..<10 { #expect(world.pbxs[.pbx(2)]?.live("u\(number)", now: world.now.instant).count == 1) }
    }

    @Test func `a server that stays down is tried after pauses of up to five minutes`() {
        var world = AgentWorld(users: 200)
        world.watchesByOptions = false
        world.pbx.behaviour.isSilent = true
        world.keepsOrders = true
        world.advance(by: .seconds(7200))
        #expect(world.sent.count < 700)
        let before = world.sent.count
        world.advance(by: .seconds(3600))
        #expect(world.sent.count - before >= 11)
        #expect(world.sent.count - before <= 40)
    }

    @Test func `a PBX that restarts empty has all its 1,000 users again after 30 seconds`() {
        var world = AgentWorld(users: 1000)
        world.advance(by: .seconds(60))
        #expect((0..<1000).allSatisfy { world.live("u\($0)") == 1 })
        // The PBX is silent for a minute, so that it does not answer OPTIONS.
        world.pbx.behaviour.isSilent = true
        world.pbx.restartEmpty()
        world.advance(by: .seconds(60))
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(30 + 30))
        #expect((0..<1000).allSatisfy { world.live("u\($0)") == 1 })
        // The PBX loses its contacts without any silence, so that only a query of contacts shows the loss.
        world.pbx.restartEmpty()
        world.advance(by: .seconds(30 + 2))
        #expect((0..<1000).count { world.live("u\($0)") == 1 } >= 999)
        #expect(world.events.contains { if case .registersAgain(_, _, .contactMissing) = $0 { true } else { false } })
    }

    @Test func `users whose PBX lost its nonces need one REGISTER each, unless the PBX binds nonces to users`() {
        for bindsNonces in [false, true] {
            var world = AgentWorld(users: 200)
            world.advance(by: .seconds(30))
            world.pbx.behaviour.bindsNonces = bindsNonces
            world.pbx.restartEmpty()
            let before = world.pbx.received
            world.advance(by: .seconds(20))
            let sent = world.pbx.received - before
            #expect((0..<200).allSatisfy { world.live("u\($0)") == 1 })
            #expect(bindsNonces ? sent > 380 && sent < 450 : sent < 260, "\(sent)")
            #expect(world.pbx.wrongPasswords.isEmpty)
        }
    }

    @Test func `a user whose password was never accepted answers no challenge of another user`() {
        var world = AgentWorld(users: 50)
        world.advance(by: .seconds(30))
        world.pbx.passwords["eve"] = "right"
        world.add("eve", password: "wrong")
        world.advance(by: .seconds(60))
        #expect(world.pbx.wrongPasswords["eve"] == 1)
    }

    @Test func `a domain that is removed is signed out, and one that comes back is registered`() {
        var world = AgentWorld(users: 20)
        world.advance(by: .seconds(30))
        world.perform { $0.domainRemoved(AgentWorld.upstream, now: $1, into: &$2) }
        #expect(world.agent.upstream(of: ByteString("pbx.test")) == nil)
        world.advance(by: .seconds(10))
        #expect((0..<20).allSatisfy { world.live("u\($0)") == 0 })
        #expect(world.agent.counts.states.allSatisfy { $0 == 0 })
        #expect(world.agent.nextDeadline == nil)
    }

    @Test func `the time and the rate of a domain change without a new token`() throws {
        var world = AgentWorld(users: 3)
        world.advance(by: .seconds(30))
        let token = try #require(world.status("u0")?.token)
        let changed = UpstreamDomain(
            domain: world.domain.domain, name: world.domain.name, realm: world.domain.realm, expires: 120, rate: 1)
        world.perform { agent, now, _ in agent.domainChanged(AgentWorld.upstream, to: changed, now: now) }
        world.advance(by: .seconds(3600))
        #expect(world.pbx.lastExpires == 120)
        #expect(world.status("u0")?.token == token)
        #expect(world.live("u0") == 1)
    }

    @Test func `a PBX that lists nothing in queries is queried no more for an hour`() {
        var world = AgentWorld(users: 50)
        world.pbx.behaviour.listsOurs = false
        world.advance(by: .seconds(3600))
        // The test allows five new registrations of all users, with two REGISTERs for each user, and 20 queries.
        #expect(world.pbx.received < 50 * 2 * 5 + 20)
        #expect(world.events.contains(.answersNoQuery(AgentWorld.upstream)))
        #expect((0..<50).allSatisfy { world.live("u\($0)") == 1 })
    }

    @Test func `a PBX that takes our word for it is told of once`() {
        var world = AgentWorld(users: 5)
        world.pbx.behaviour.asksPassword = false
        world.advance(by: .seconds(10_000))
        #expect(world.events.filter { $0 == .unchallenged(AgentWorld.upstream) }.count == 1)
        var asking = AgentWorld(users: 5)
        asking.advance(by: .seconds(10_000))
        #expect(!asking.events.contains(.unchallenged(AgentWorld.upstream)))
    }

    @Test func `a binding that cannot be refreshed is told of, and how long the PBX did not know the user`() throws {
        var world = AgentWorld(users: 1, expires: 600)
        world.advance(by: .seconds(10))
        world.pbx.behaviour.isSilent = true
        world.advance(by: .seconds(1000))
        #expect(world.events.contains(.lapsed(world.user("u0"))))
        #expect(world.state("u0") == .registering)
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(400))
        let after = world.events.compactMap { event in
            if case .registered(_, let after) = event { after } else { nil }
        }
        #expect(after.count == 2)
        #expect(try #require(after.last) > .seconds(300))
    }

    @Test func `a limit that is too low is told of`() {
        var world = AgentWorld(users: 600, rate: 1, expires: 100)
        world.advance(by: .seconds(4000))
        #expect(world.events.contains(.isBehind(AgentWorld.upstream)))
    }

    @Test func `after a crash the tokens are the same, the CSeq rises, and each user has one binding`() {
        var world = AgentWorld(users: 20)
        world.keepsOrders = true
        world.advance(by: .seconds(100))
        for round in 0..<20 {
            world.crash(for: .milliseconds(Int64(round) * 37))
            world.advance(by: .milliseconds(Int64(round) * 111))
        }
        world.advance(by: .seconds(30))
        #expect((0..<20).allSatisfy { world.live("u\($0)") == 1 })
        var last: [String: UInt32] = [:]
        for order in world.sent {
            let name = order.user.name.string
            #expect(order.cseq > last[name] ?? 0)
            last[name] = order.cseq
        }
        #expect(Set(world.sent.map(\.token)).count == 20)
        #expect(Set(world.sent.map(\.callID)).count == 20)
    }

    @Test(arguments: [(DigestAlgorithm.md5, true), (.sha256, true), (.md5, false), (.sha256, false)])
    func `the response is that of RFC 7616 section 3.4.1`(algorithm: DigestAlgorithm, offersQop: Bool) throws {
        var behaviour = SimulatedRegistrar.Behaviour()
        behaviour.algorithms = [algorithm]
        behaviour.offersQop = offersQop
        var world = AgentWorld(users: 1, behaviour: behaviour)
        world.keepsOrders = true
        world.advance(by: .seconds(1))
        let answer = try #require(world.sent.compactMap(\.answer).first)
        let hash = { (text: String) in
            String(
                decoding: (algorithm == .md5 ? HashAlgorithm.md5 : .sha256).hexDigest(of: Array(text.utf8)),
                as: UTF8.self)
        }
        let user = DigestUser(
            name: ByteString("u0"), realm: ByteString("pbx.test"),
            ha1: [algorithm: ByteString(hash("u0:pbx.test:pw0"))])
        let field = try #require(answer.field(for: user, uri: ByteString("sip:pbx.test"), .forTests))
        let text = field.value.string
        let cnonce = text.split(separator: "cnonce=\"").last.map { String($0.prefix { $0 != "\"" }) } ?? ""
        let middle = offersQop ? "00000001:\(cnonce):auth:" : ""
        let response = hash(
            "\(hash("u0:pbx.test:pw0")):\(answer.challenge.nonce):\(middle)\(hash("REGISTER:sip:pbx.test"))")
        #expect(text.hasPrefix("Digest username=\"u0\", realm=\"pbx.test\", nonce=\"\(answer.challenge.nonce)\", uri="))
        #expect(text.contains("response=\"\(response)\""))
        #expect(text.contains("opaque=\"o\\\"p\""))
        #expect(text.contains("nc=00000001") == offersQop)
        #expect(text.contains("algorithm=SHA-256") == (algorithm == .sha256))
        // The agent cannot make credentials for a user whose HA1 was removed in the meantime.
        let without = DigestUser(name: user.name, realm: user.realm, ha1: [:])
        #expect(answer.field(for: without, uri: ByteString("sip:pbx.test"), .forTests) == nil)
    }

    @Test func `no number above the stored ceiling is sent`() {
        let world = AgentWorld()
        var agent = UpstreamAgent([world.domain], ceiling: 900, functions: world.functions)
        var orders: [UpstreamOrder] = []
        let now = Moment(instant: Instant(nanoseconds: 0), date: UnixTime(seconds: 0))
        agent.serversFound(
            [UpstreamServer(transport: .udp, endpoint: .pbx(1))], of: AgentWorld.upstream, now: now, into: &orders)
        agent.userIsWakeable(
            WakeableUser(
                upstream: AgentWorld.upstream, name: ByteString("bob"), algorithms: DigestAlgorithms(of: .md5),
                fingerprint: 1, lastSign: now.date), now: now, into: &orders)
        // The clock says 1970, so the agent can make the CSeq rise only by the limit that the last run has stored.
        guard case .storeCeiling(let ceiling) = orders.first, orders.count == 1 else {
            Issue.record("expected one order to store, got \(orders)")
            return
        }
        #expect(ceiling > 900)
        orders = []
        agent.ceilingStored(ceiling, now: now, into: &orders)
        guard case .send(let order) = orders.first else {
            Issue.record("expected a REGISTER, got \(orders)")
            return
        }
        #expect(order.cseq == 901)
    }
}
