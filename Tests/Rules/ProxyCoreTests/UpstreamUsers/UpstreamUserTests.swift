import Addressing
import Bytes
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPMessage
import Telemetry
import TestSupport
import Testing
import Timekeeping
import UpstreamRegistration

@Suite("Users at a PBX")
struct UpstreamUserTests {
    @Test func `a user with a push contact is registered at the PBX, with the stored password`() throws {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let requests = pbx.received
        #expect(requests.count >= 2)
        let first = try #require(requests.first)
        #expect(first.uri.text.string == "sip:example.net")
        #expect(first.to.uri.text.string == "sip:bob@example.net")
        #expect(first.authorization.isEmpty)
        let second = requests[1]
        let credentials = try #require(second.authorization.first)
        let user = try #require(
            TestDigest.users("bob").user(named: ByteString("bob"), realm: ByteString("example.net")))
        let expected = DigestFunctions.forTests.response(
            to: credentials, .md5, method: .register, ha1: user.ha1[.md5]?.array ?? [])
        #expect(credentials.response.string == String(decoding: expected, as: UTF8.self))
        #expect(second.cseq.number > first.cseq.number)
        #expect(second.callID == first.callID)
        #expect(pbx.contacts["bob"]?.hasSuffix("@10.0.0.1:5060") == true)
        #expect(pbx.token().count == 20)
        #expect(!pbx.contacts["bob", default: ""].contains("pn-"))
        #expect(pbx.contacts["eve"] == nil)
        #expect(pbx.engine.upstreamUsers.agent.counts[.registered] == 1)
    }

    @Test func `an ordinary contact, or a user of another domain, is not registered there`() {
        var pbx = PBXBench { $0.domains.append(ByteString("other.net")) }
        pbx.react(to: pbx.bench.register(token: nil))
        pbx.pass(.seconds(2))
        #expect(pbx.received.isEmpty)
    }

    @Test func `a call for the token wakes the user, and neither push nor record tells the token`() throws {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let token = pbx.token()
        let actions = pbx.invite(to: token)
        #expect(story(actions).contains("push invite tok1"))
        #expect(story(actions).contains("100 invite > pbx"))
        for push in actions.pushes {
            #expect(!"\(push)".contains(token))
        }
        let woken = pbx.bench.register(cseq: 2)
        let sent = try #require(woken.texts.first { $0.hasPrefix("INVITE") })
        #expect(sent.hasPrefix("INVITE sip:bob@192.0.2.5:40000 SIP/2.0"))
        let records = pbx.engine.timeline.underWay { _ in true }
        #expect(!records.isEmpty)
        #expect(records.allSatisfy { $0.user.string == "bob" && $0.host.string == "example.net" })
    }

    @Test func `nobody but the PBX calls a token`() {
        var pbx = PBXBench { settings in
            settings.trusted.append(contentsOf: [TrustedPeer("10.0.0.9")].compactMap { $0 })
            settings.authenticates = true
        }
        let first = pbx.bench.receive(pbx.bench.registerText())
        let challenge = sentResponse(first)
        if let challenge {
            let proved = pbx.bench.receive(TestDigest.answer(challenge, to: pbx.bench.registerText(), as: "bob"))
            pbx.react(to: proved + pbx.bench.commitAll(in: proved))
        }
        pbx.pass(.seconds(2))
        let token = pbx.token()
        #expect(token.count == 20)
        let other = Endpoint(IPAddress(v4: 0x0a00_0009), 5060)
        // Another trusted peer gets the same answer for a user's agent token as for a token that nobody has.
        let known = pbx.invite(to: token, from: other, callID: "k1")
        let unknown = pbx.invite(to: "AAAAAAAAAAAAAAAAAAAA", from: other, callID: "k2")
        #expect(known.texts.last?.hasPrefix("SIP/2.0 404") == true)
        #expect(unknown.texts.last?.hasPrefix("SIP/2.0 404") == true)
        let guess = pbx.invite(to: "BBBBBBBBBBBBBBBBBBBB", callID: "k3")
        #expect(guess.texts.last?.hasPrefix("SIP/2.0 404") == true)
        // A stranger who calls an agent token gets a challenge, like a stranger who calls any user.
        let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)
        #expect(pbx.invite(to: token, from: stranger, callID: "k4").texts.last?.hasPrefix("SIP/2.0 407") == true)
        #expect(pbx.options(to: token, from: stranger).texts.last?.hasPrefix("SIP/2.0 407") == true)
        #expect((known + unknown + guess).pushes.isEmpty)
    }

    @Test func `no log line and no record has a token, also of refused calls and of former users`() throws {
        let sink = LineSink()
        var pbx = PBXBench(log: Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) }) { settings in
            settings.trusted.append(contentsOf: [TrustedPeer("10.0.0.9")].compactMap { $0 })
        }
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let token = pbx.token()
        #expect(token.count == 20)
        // The calls to agent tokens are one that nobody answers, two from another trusted peer, and one whose INVITE
        // cannot be read.
        let other = Endpoint(IPAddress(v4: 0x0a00_0009), 5060)
        var actions = pbx.invite(to: token, callID: "c1") + pbx.bench.pass(.seconds(60))
        actions += pbx.invite(to: token, from: other, callID: "c2")
        actions += pbx.invite(to: token.lowercased(), from: other, callID: "c3")
        actions += pbx.bench.receive(
            SIPText.invite(
                to: token, domain: "10.0.0.1:5060", from: "103", at: EngineBench.pbx, callID: "c4", branch: "c4"
            ).replacing("CSeq: 1", with: "CSeq: x"),
            from: EngineBench.pbx)
        // The PBX calls the agent token of a user who has no phone any more.
        pbx.react(to: pbx.bench.register(cseq: 2, expires: 0))
        pbx.pass(.seconds(1))
        #expect(pbx.contacts["bob"] == nil)
        actions += pbx.invite(to: token, callID: "c5")
        pbx.react(to: pbx.bench.register(cseq: 3))
        pbx.pass(.seconds(1))
        pbx.engine.drainBegins()
        actions += pbx.invite(to: token, callID: "c6")
        let records = actions.filter { if case .trace = $0 { true } else { false } }.map { "\($0)" }.joined()
        let text = sink.take().joined() + records
        for call in ["c1", "c2", "c3", "c4", "c5", "c6"] { #expect(text.contains(call), "\(call)") }
        #expect(text.contains("bob@example.net"))
        #expect(!text.lowercased().contains(token.lowercased()))
    }

    @Test func `a Path to the daemon is sent where the setting says so, and calls along it arrive`() throws {
        var pbx = PBXBench { $0.upstreamRegistrations[ByteString("example.net")]?.path = true }
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let rows = try #require(pbx.received.last?.frame)
        #expect(rows.firstValue(of: .path)?.string == "<sip:10.0.0.1:5060;lr>")
        #expect(rows.firstValue(of: .supported)?.string == "path")
        #expect(pbx.token().count == 20)
        let call = SIPText.invite(
            to: pbx.token(), domain: "10.0.0.1:5060", from: "103", at: EngineBench.pbx, callID: "p", branch: "p")
        let routed = call.replacing("Max-Forwards", with: "Route: <sip:10.0.0.1:5060;lr>\r\nMax-Forwards")
        #expect(story(pbx.bench.receive(routed, from: EngineBench.pbx)).contains("push invite tok1"))
        var plain = PBXBench()
        plain.react(to: plain.bench.register())
        plain.pass(.seconds(2))
        #expect(plain.received.last?.frame.contains(.path) == false)
    }

    @Test func `a reload adds, changes and removes a domain`() throws {
        let home = ByteString("example.net")
        var pbx = PBXBench { $0.upstreamRegistrations = [:] }
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        #expect(pbx.received.isEmpty)
        var group = UpstreamRegistrationSettings()
        group.upstream = NextHop("sip:10.0.0.2:5060")
        pbx.bench.change { $0.upstreamRegistrations = [home: group] }
        pbx.react(to: pbx.bench.take())
        pbx.pass(.seconds(2))
        let token = pbx.token()
        #expect(token.count == 20)
        group.expires = .seconds(120)
        pbx.bench.change { $0.upstreamRegistrations = [home: group] }
        pbx.react(to: pbx.bench.take())
        pbx.pass(.seconds(3600))
        #expect(pbx.received.last { !$0.contacts.isEmpty }?.expires == 120)
        #expect(pbx.token() == token)
        // If the settings name another PBX, the binding at the former PBX ends, and calls from the former PBX get 404.
        group.upstream = NextHop("sip:10.0.0.2:5070")
        let before = pbx.received.count
        pbx.bench.change { $0.upstreamRegistrations = [home: group] }
        let moved = pbx.react(to: pbx.bench.take()) + pbx.pass(.seconds(2))
        #expect(pbx.received.dropFirst(before).last?.expires == 0)
        #expect(pbx.contacts["bob"] == nil)
        let other = Endpoint(IPAddress(v4: 0x0a00_0002), 5070)
        #expect(
            moved.contains { action in
                if case .send(let bytes, let flow) = action {
                    flow.remote == other && readRequest(bytes)?.method == .register
                } else {
                    false
                }
            })
        pbx.bench.change { $0.upstreamRegistrations = [:] }
        pbx.react(to: pbx.bench.take())
        pbx.pass(.seconds(60))
        #expect(pbx.engine.upstreamUsers.user(EngineBench.bob) == nil)
        #expect(pbx.invite(to: token).texts.last?.hasPrefix("SIP/2.0 404") == true)
    }

    @Test func `another spelling of the same PBX ends no registration`() throws {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let before = pbx.received.filter { !$0.contacts.isEmpty }.count
        for text in ["sip:10.0.0.2", "SIP:10.0.0.2:5060;transport=udp", "sip:10.0.0.2:5060"] {
            pbx.bench.change {
                $0.upstreamRegistrations[ByteString("example.net")]?.upstream = NextHop(text)
            }
            pbx.react(to: pbx.bench.take())
            pbx.pass(.seconds(2))
            #expect(pbx.received.filter { !$0.contacts.isEmpty }.count == before, "\(text)")
            #expect(pbx.contacts["bob"] != nil)
        }
        let named = try #require(NextHop("sip:PBX.example.net"))
        for (text, isSame) in [
            ("sip:pbx.example.net:5060", true), ("sip:pbx.example.net;transport=udp", true),
            ("sip:pbx.example.net:5070", false), ("sip:pbx.example.net;transport=tcp", false),
            ("sips:pbx.example.net", false), ("sip:pbx.example.org", false),
        ] {
            #expect(try named.isSameServer(as: #require(NextHop(text))) == isSame, "\(text)")
        }
    }

    @Test func `OPTIONS for a token is answered here, without a push`() {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let actions = pbx.options(to: pbx.token())
        #expect(story(actions) == ["200 options > pbx"])
        #expect(pbx.options(to: "AAAAAAAAAAAAAAAAAAAA").texts.last?.hasPrefix("SIP/2.0 404") == true)
    }

    @Test func `the last device gone ends the binding at once`() {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.react(to: pbx.bench.register(token: "tok2", callID: "r2"))
        pbx.pass(.seconds(2))
        pbx.react(to: pbx.bench.register(cseq: 2, expires: 0))
        pbx.pass(.milliseconds(200))
        #expect(pbx.contacts["bob"] != nil)
        pbx.react(to: pbx.bench.register(token: "tok2", callID: "r2", cseq: 2, expires: 0))
        pbx.pass(.milliseconds(200))
        #expect(pbx.contacts["bob"] == nil)
        #expect(pbx.received.last?.expires == 0)
    }

    @Test func `a token that the provider calls dead ends the binding`() throws {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let push = try #require(pbx.invite(to: pbx.token()).pushes.first)
        pbx.bench.finish(push.id, .tokenDead(since: nil))
        pbx.react(to: pbx.bench.take())
        pbx.pass(.milliseconds(300))
        #expect(pbx.contacts["bob"] == nil)
    }

    @Test func `a removed user is signed out with the former password`() {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        pbx.engine.userRemoved(name: ByteString("bob"), realm: ByteString("example.net"), now: pbx.bench.now)
        pbx.react(to: pbx.bench.take())
        pbx.pass(.milliseconds(300))
        #expect(pbx.contacts["bob"] == nil)
        #expect(pbx.received.last?.authorization.isEmpty == false)
    }

    @Test func `a refused password is tried once, told once, and again after a new one`() {
        var pbx = PBXBench()
        pbx.refuses = 403
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(100))
        #expect(pbx.received.count == 1)
        #expect(pbx.engine.upstreamUsers.agent.counts[.refused] == 1)
        pbx.refuses = nil
        pbx.react(to: pbx.bench.register(cseq: 2))
        pbx.pass(.seconds(2))
        #expect(pbx.received.count == 1)
        pbx.engine.userAdded(
            DigestUser(
                name: ByteString("bob"), realm: ByteString("example.net"), password: ByteString("new"),
                algorithms: [.md5], functions: .forTests), now: pbx.bench.now)
        pbx.react(to: pbx.bench.take())
        pbx.pass(.seconds(2))
        #expect(pbx.contacts["bob"] != nil)
    }

    @Test func `a PBX that was down gets all users again`() {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.react(to: pbx.bench.register(user: "eve", token: "tok9", callID: "r9"))
        pbx.pass(.seconds(40))
        #expect(pbx.contacts.count == 2)
        pbx.answersOptions = false
        pbx.pass(.seconds(40))
        pbx.contacts = [:]
        pbx.answersOptions = true
        let before = pbx.received.count
        pbx.pass(.seconds(40))
        #expect(pbx.received.count > before)
        #expect(pbx.contacts.count == 2)
    }

    @Test func `a stranger's answer to a REGISTER is refused`() throws {
        var pbx = PBXBench()
        pbx.refuses = nil
        var actions = pbx.bench.register()
        // The store confirms the upper limit of CSeq, so the agent sends the first REGISTER, but the PBX does not
        // answer.
        for case .storeRegisterCeiling(let ceiling) in actions + pbx.bench.pass(.milliseconds(50)) {
            pbx.engine.registerCeilingStored(ceiling, now: pbx.bench.now)
        }
        actions = pbx.bench.take() + pbx.bench.pass(.milliseconds(50))
        let register = try #require(actions.bytes.compactMap { readRequest($0) }.first { $0.method == .register })
        let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)
        _ = pbx.bench.receive(SIPText.response(403, to: register, tag: "x"), from: stranger)
        #expect(pbx.engine.upstreamUsers.agent.counts[.refused] == 0)
        _ = pbx.bench.receive(SIPText.response(403, to: register, tag: "x"), from: EngineBench.pbx)
        #expect(pbx.engine.upstreamUsers.agent.counts[.refused] == 1)
    }

    @Test func `after a restart the users of the store are registered with the same tokens`() {
        var pbx = PBXBench()
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        let token = pbx.token()
        var again = PBXBench()
        let row = pbx.engine.registrar.bindings.bindings(for: EngineBench.bob, now: pbx.bench.now.instant)
            .compactMap { pbx.engine.registrar.bindings.stored($0.id, now: pbx.bench.now) }
        for row in row { _ = again.engine.restore(row, now: again.bench.now) }
        again.engine.restored(now: again.bench.now)
        again.react(to: again.bench.take())
        again.pass(.seconds(2))
        #expect(again.token() == token)
        #expect(token.count == 20)
    }
}
