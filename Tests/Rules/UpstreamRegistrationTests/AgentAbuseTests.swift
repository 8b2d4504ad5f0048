import Addressing
import Bytes
import Crypto
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping
import UpstreamRegistration

/// Tests the agent with PBXs that answer wrongly or refuse everything, and with late and forged answers.
@Suite("Upstream agent: abuse")
struct AgentAbuseTests {
    private func days(_ count: Int64) -> Duration { .seconds(count * 86_400) }

    @Test func `a wrong password is sent once, and never again until another one comes`() {
        var world = AgentWorld()
        world.pbx.passwords = ["bob": "right"]
        world.add("bob", password: "wrong")
        for _ in 0..<200 {
            world.advance(by: .seconds(3600))
            // The user's phone registers at the daemon again and again.
            world.register("bob")
        }
        #expect(world.state("bob") == .refused)
        #expect(world.pbx.received == 2)
        #expect(world.pbx.wrongPasswords["bob"] == 1)
        #expect(world.events.filter { $0 == .refused(world.user("bob"), .status(401)) }.count == 1)
        world.setPassword("right", of: "bob")
        world.advance(by: .seconds(5))
        #expect(world.state("bob") == .registered)
        #expect(world.live("bob") == 1)
    }

    @Test func `a phone that signs out and in again does not make the daemon send a refused password again`() {
        var world = AgentWorld(users: 1)
        world.advance(by: .seconds(60))
        world.pbx.passwords["u0"] = "changed"
        world.advance(by: days(1))
        #expect(world.state("u0") == .refused)
        for _ in 0..<50 {
            world.end("u0")
            world.register("u0")
            world.advance(by: .seconds(10))
        }
        #expect(world.state("u0") == .refused)
        #expect(world.pbx.wrongPasswords["u0"] == 1)
        // The agent forgets a removed user, so that an operator may add the user with another password.
        world.end("u0", .userRemoved)
        #expect(world.state("u0") == nil)
    }

    @Test func `a password that is changed at the PBX is refused once`() {
        var world = AgentWorld(users: 1)
        world.advance(by: .seconds(60))
        world.pbx.passwords["u0"] = "changed"
        world.advance(by: days(10))
        #expect(world.state("u0") == .refused)
        #expect(world.pbx.wrongPasswords["u0"] == 1)
    }

    @Test func `a 403 to a query refuses the password, if the PBX has answered queries before`() {
        var world = AgentWorld(users: 1)
        world.advance(by: .seconds(60))
        let received = world.pbx.received
        world.pbx.behaviour.status = 403
        world.advance(by: .seconds(86_400))
        #expect(world.state("u0") == .refused)
        #expect(world.pbx.received == received + 1)
    }

    @Test func `403 stops at once`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.status = 403
        world.advance(by: days(3))
        #expect(world.state("u0") == .refused)
        #expect(world.pbx.received == 1)
    }

    @Test func `a PBX that refuses everybody is asked for ten users, and then for one after each pause`() {
        var world = AgentWorld(users: 500)
        world.pbx.behaviour.status = 403
        world.advance(by: .seconds(3600))
        #expect(world.pbx.received >= 20)
        #expect(world.pbx.received < 60)
        #expect(world.events.contains { if case .refusesEverybody = $0 { true } else { false } })
        world.pbx.behaviour.status = nil
        world.advance(by: .seconds(400))
        let registered = (0..<500).count { world.state("u\($0)") == .registered }
        #expect(registered > 400)
        #expect(registered + (0..<500).count { world.state("u\($0)") == .refused } == 500)
        // An operator's command makes the agent register users whom the PBX has refused.
        world.perform { $0.retryOrdered(AgentWorld.upstream, user: nil, now: $1, into: &$2) }
        world.advance(by: .seconds(60))
        #expect((0..<500).allSatisfy { world.state("u\($0)") == .registered })
    }

    @Test func `the daemon answers no challenge of another realm`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.realm = "asterisk"
        world.keepsOrders = true
        world.advance(by: days(2))
        #expect(world.sent.allSatisfy { $0.answer == nil })
        #expect(world.pbx.received == 1)
        #expect(world.events.contains(.refused(world.user("u0"), .realm(ByteString("asterisk")))))
    }

    @Test func `a PBX that always says stale gets no more than a few requests an hour`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.alwaysStale = true
        world.advance(by: days(1))
        #expect(world.state("u0") != .refused)
        #expect(world.pbx.received < 4 * (24 + 20))
    }

    @Test func `a grant of a second makes no request each second`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.fixedGrant = 1
        world.advance(by: .seconds(3600))
        #expect(world.pbx.received < 3600 / 10 * 2 + 20)
        #expect(world.events.filter { if case .grantTooShort = $0 { true } else { false } }.count == 1)
    }

    @Test func `a grant of ten years is refreshed within the time that was asked`() {
        var world = AgentWorld(users: 1)
        world.watchesByOptions = false
        world.pbx.behaviour.fixedGrant = 315_360_000
        world.pbx.behaviour.answersQueries = false
        world.advance(by: .seconds(60))
        let before = world.agent.counts[.refreshed]
        world.advance(by: .seconds(3600))
        #expect(world.agent.counts[.refreshed] > before)
    }

    @Test func `contacts of others are ignored`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.listedToo = [
            "<sip:desk@10.0.0.9>;expires=1", "\"A, B\" <sip:AAAAAAAAAAAAAAAAAAAA@10.0.0.9>;expires=0", "<sip:x>", "*",
            "<sip:u0@10.0.0.9>",
        ]
        world.pbx.behaviour.longestGrant = 1800
        world.advance(by: .seconds(30))
        #expect(world.state("u0") == .registered)
        let until = world.status("u0")?.boundUntil ?? .distantPast
        #expect(until - world.now.instant <= .seconds(1800))
        #expect(until - world.now.instant > .seconds(1700))
    }

    @Test func `a PBX that lists only others is asked again with pauses, and disturbs no other user`() {
        var world = AgentWorld(users: 20)
        world.advance(by: .seconds(30))
        let before = world.pbx.received
        world.pbx.behaviour.listedToo = ["<sip:desk@10.0.0.9>;expires=100"]
        world.pbx.behaviour.listsOurs = false
        world.advance(by: days(1))
        // In five minutes, the agent may send four REGISTERs for each user: two for the user alone, and two when all
        // users register again.
        #expect(world.pbx.received - before < 20 * 288 * 2 * 2)
        #expect(world.events.contains(.notListed(world.user("u0"))))
        world.pbx.behaviour.listsOurs = true
        world.advance(by: .seconds(600))
        #expect((0..<20).allSatisfy { world.state("u\($0)") == .registered })
    }

    @Test func `a Min-Expires beyond a week, or one that rises for ever, ends with pauses`() {
        for least in ["4294967295", "604801", "x", "99999999999999999999"] {
            var world = AgentWorld(users: 1)
            world.pbx.behaviour.status = 423
            world.pbx.behaviour.rows = ["Min-Expires: \(least)"]
            world.advance(by: days(1))
            #expect(world.pbx.received < 60)
        }
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.status = 423
        world.pbx.behaviour.rows = ["Min-Expires: 7200"]
        world.advance(by: days(1))
        #expect(world.pbx.received < 120)
    }

    @Test func `a Retry-After of years counts as an hour`() {
        var world = AgentWorld(users: 1)
        world.pbx.behaviour.status = 503
        world.pbx.behaviour.rows = ["Retry-After: 4000000000"]
        world.advance(by: .seconds(60))
        #expect(world.pbx.received == 1)
        world.pbx.behaviour.status = nil
        world.advance(by: .seconds(3700))
        #expect(world.state("u0") == .registered)
    }

    @Test func `a server error for one user does not keep the others away`() {
        var world = AgentWorld(users: 30)
        world.pbx.behaviour.status = 500
        world.advance(by: .seconds(2))
        world.pbx.behaviour.status = nil
        world.advance(by: .seconds(320))
        #expect((0..<30).allSatisfy { world.state("u\($0)") == .registered })
    }

    @Test func `an answer with another number, or a second one, changes nothing`() {
        var world = AgentWorld(users: 2)
        world.keepsOrders = true
        world.pbx.behaviour.isSilent = true
        world.watchesByOptions = false
        world.advance(by: .seconds(5))
        let first = world.sent.map(\.number)
        #expect(first.count == 2)
        world.advance(by: .seconds(30))
        // The agent has given up the first REGISTERs, so it must ignore late answers to them.
        for number in first {
            world.perform { $0.responded(to: number, RegisterResponse(status: 403), now: $1, into: &$2) }
            world.perform { $0.failed(number, .noPassword, now: $1, into: &$2) }
        }
        #expect(world.state("u0") == .registering)
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(320))
        #expect(world.state("u0") == .registered)
        // A late answer for a removed user must not change the user who now has the removed user's record.
        let last = world.sent.map(\.number)
        world.end("u0")
        world.end("u1")
        world.advance(by: .seconds(5))
        world.pbx.passwords["new"] = "new"
        world.pbx.behaviour.isSilent = true
        world.add("new", password: "new")
        for number in last + world.sent.map(\.number).dropLast() {
            world.perform { $0.responded(to: number, RegisterResponse(status: 403), now: $1, into: &$2) }
        }
        #expect(world.state("new") == .registering)
    }

    @Test func `a device that comes and goes while the PBX is silent costs no memory and no flood`() {
        var world = AgentWorld(users: 5)
        world.advance(by: .seconds(10))
        world.pbx.behaviour.isSilent = true
        world.keepsOrders = true
        for _ in 0..<5000 {
            world.end("u0")
            world.register("u0")
            world.advance(by: .milliseconds(10))
        }
        #expect(world.sent.count < 200)
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(400))
        #expect(world.state("u0") == .registered)
        #expect(world.live("u0") == 1)
    }

    @Test func `a PBX that comes back after an hour gets users at the limit, those with calls first`() {
        var world = AgentWorld(users: 3000, expires: 600)
        world.advance(by: .seconds(150))
        #expect(world.agent.counts[.registered] == 3000)
        world.pbx.behaviour.isSilent = true
        world.advance(by: .seconds(3600))
        #expect(world.agent.counts[.registering] == 3000)
        world.pbx.restartEmpty()
        for number in 2900..<3000 {
            world.perform { agent, now, _ in
                agent.userCalled(UpstreamUser(AgentWorld.upstream, ByteString("u\(number)")), now: now)
            }
        }
        world.keepsOrders = true
        world.pbx.behaviour.isSilent = false
        world.advance(by: .seconds(100))
        let begun = world.sent.filter { $0.answer == nil || $0.answer?.challenge.nonce != nil }.map(\.user.name.string)
        let firsts = Set(begun.prefix(60))
        #expect(firsts.allSatisfy { Int($0.dropFirst()).map { $0 >= 2900 } ?? false })
        #expect((0..<3000).allSatisfy { world.live("u\($0)") == 1 })
    }

    @Test func `each REGISTER counts to the rate, also the answers to challenges`() {
        var world = AgentWorld(users: 400, rate: 20)
        world.advance(by: .seconds(60))
        let times = world.pbx.sendTimes
        #expect(times.count >= 800)
        for (index, time) in times.enumerated() {
            let within = times[index...].prefix { $0 - time < .seconds(5) }.count
            #expect(within <= 5 * 20 + 5)
        }
    }

    @Test func `no more users a second begin than the setting says`() {
        var world = AgentWorld(users: 400, rate: 20)
        world.keepsOrders = true
        world.pbx.behaviour.asksPassword = false
        world.advance(by: .seconds(40))
        let times = world.pbx.sendTimes
        #expect(times.count >= 400)
        for (index, time) in times.enumerated() {
            let within = times[index...].prefix { $0 - time < .seconds(1) }.count
            // The simulated network delays requests by up to 30 ms, so a few more than 20 may arrive within a second.
            #expect(within <= 22)
        }
    }

    @Test func `a token is 100 bits of letters and digits, and the same in every run`() throws {
        let world = AgentWorld(users: 2)
        let again = AgentWorld(users: 2, seed: 77)
        let token = try #require(world.status("u0")?.token)
        #expect(token == again.status("u0")?.token)
        #expect(token != world.status("u1")?.token)
        let text = token.string
        #expect(text.count == 20)
        #expect(text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
        #expect(UpstreamToken(token)?.text == token)
        #expect(UpstreamToken(token.lowercased()) == UpstreamToken(token))
        #expect(world.agent.user(called: token)?.name == ByteString("u0"))
        for guess in ["", "u0", "AAAAAAAAAAAAAAAAAAAA", text + "A", String(text.dropLast()), "1" + text.dropFirst()] {
            #expect(world.agent.user(called: ByteString(guess)) == nil)
        }
        let other = AgentFunctions(
            code: { HashAlgorithm.sha256.digest(of: Array("another".utf8) + $0) }, random: { 1 })
        var stranger = UpstreamAgent([world.domain], ceiling: 0, functions: other)
        var orders: [UpstreamOrder] = []
        stranger.userIsWakeable(
            WakeableUser(
                upstream: AgentWorld.upstream, name: ByteString("u0"), algorithms: [], fingerprint: 0,
                lastSign: world.now.date), now: world.now, into: &orders)
        #expect(stranger.status(of: world.user("u0"))?.token != token)
    }

    @Test func `no event has a token or a nonce`() throws {
        var world = AgentWorld(users: 3)
        world.advance(by: .seconds(100))
        world.pbx.behaviour.isSilent = true
        world.advance(by: .seconds(7200))
        world.end("u1")
        world.pbx.behaviour.isSilent = false
        world.pbx.behaviour.status = 403
        world.advance(by: .seconds(600))
        let text = world.events.map { "\($0)" }.joined(separator: "\n")
        #expect(!world.events.isEmpty)
        for name in ["u0", "u2"] {
            let token = try #require(world.status(name)?.token.string)
            #expect(!text.contains(token))
        }
        #expect(!text.contains("0123456789abcdef"))
    }

    @Test func `a name of another domain or of any bytes is only a name`() {
        var world = AgentWorld()
        let names = ["a'; DROP TABLE x", "b\r\nVia: evil", "ü", "%41", "a@b", String(repeating: "x", count: 255)]
        for name in names {
            world.pbx.passwords[name] = "p"
            world.add(name, password: "p")
        }
        world.add(String(repeating: "y", count: 256), password: "p")
        world.add("", password: "p")
        world.advance(by: .seconds(10))
        for name in names { #expect(world.live(name) == 1, "\(name)") }
        #expect(world.agent.counts[.registered] == names.count)
    }
}
