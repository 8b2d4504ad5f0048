import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests that a phone's call does not wait for an upstream that does not answer (T33.4).
@Suite("An upstream that does not answer")
struct UpstreamTests {
    private static let second = Endpoint(IPAddress(v4: 0x0a00_0003), 5060)

    private static func bench(_ upstream: String = "sip:10.0.0.2:5060") -> EngineBench {
        let bench = EngineBench {
            $0.upstream = NextHop(upstream)
            $0.upstreamCheck = UpstreamCheckSettings()
        }
        bench.engine.restored(now: bench.now)
        return bench
    }

    /// Finds the last OPTIONS that was sent.
    private static func question(_ actions: [ProxyAction]) throws -> SIPRequest {
        let request = try #require(sentRequest(actions))
        try #require(request.method == .options)
        return request
    }

    private static func answer(_ bench: EngineBench, _ status: Status = 200, to request: SIPRequest) -> [String] {
        story(bench.receive(SIPText.response(status, to: request, tag: "x"), from: EngineBench.pbx))
    }

    /// A bench whose upstream answered OPTIONS at first, and then stopped answering.
    private static func deserted() throws -> EngineBench {
        let bench = bench()
        _ = answer(bench, to: try question(bench.pass(.zero)))
        #expect(bench.engine.upstreamState.health.servers.map(\.state) == [.up])
        _ = bench.pass(.seconds(34))
        #expect(bench.engine.upstreamState.health.isAway)
        return bench
    }

    @Test func `the question names its source, and any answer counts`() throws {
        let bench = Self.bench()
        let sent = bench.pass(.zero)
        #expect(story(sent) == ["options > pbx"])
        let text = try #require(sent.texts.first)
        #expect(text.hasPrefix("OPTIONS sip:10.0.0.2:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK"))
        #expect(text.contains("\r\nFrom: <sip:10.0.0.1:5060>;tag=") && text.contains("\r\nCSeq: 1 OPTIONS\r\n"))
        #expect(Self.answer(bench, 403, to: try Self.question(sent)).isEmpty)
        #expect(bench.engine.upstreamState.health.servers.map(\.state) == [.up])
    }

    @Test func `while it is away a call is refused at once, with instructions, until it answers`() throws {
        let bench = try Self.deserted()
        let refused = bench.receive(bench.inviteText())
        #expect(story(refused) == ["503 invite > phone"])
        let text = try #require(refused.texts.first)
        #expect(text.contains("\r\nRetry-After: 10\r\n"))
        #expect(text.contains("\r\nWarning: 399 example.net \"The upstream does not answer\"\r\n"))
        // The proxy continues to send OPTIONS to the upstream.
        let asked = bench.pass(.seconds(5))
        _ = Self.answer(bench, to: try Self.question(asked))
        #expect(story(bench.receive(bench.inviteText(callID: "again", branch: "again"))).last == "invite > pbx")
    }

    @Test func `the first call that has no answer ends in five seconds, and is not there when it is back`() throws {
        let bench = Self.bench()
        _ = Self.answer(bench, to: try Self.question(bench.pass(.zero)))
        let sent = try #require(sentRequest(bench.receive(bench.inviteText())))
        let told = bench.pass(.seconds(5))
        #expect(story(told).contains("options > pbx"))
        #expect(story(told).last == "503 invite > phone")
        let text = try #require(told.texts.last)
        #expect(text.contains("\r\nRetry-After: 10\r\n"))
        #expect(!story(bench.pass(.seconds(10))).contains("invite > pbx"))
        // The upstream has received the INVITE, but the daemon cancels the call, because the caller has gone.
        #expect(Self.answer(bench, 180, to: sent).contains("cancel > pbx"))
    }

    @Test func `where OPTIONS were never answered, a call is tried`() throws {
        let bench = Self.bench()
        _ = bench.pass(.seconds(10))
        #expect(bench.engine.upstreamState.health.isAway)
        let sent = bench.receive(bench.inviteText())
        #expect(story(sent) == ["100 invite > phone", "invite > pbx"])
        #expect(story(bench.pass(.seconds(4))).last == "503 invite > phone")
        let next = try #require(sentRequest(bench.receive(bench.inviteText(callID: "n", branch: "n"))))
        _ = Self.answer(bench, 100, to: next)
        #expect(!bench.engine.upstreamState.health.isAway)
        // The daemon repeats the 503 of the earlier call, because the phone has not acknowledged this 503.
        #expect(
            !bench.pass(.seconds(20)).texts.contains { $0.hasPrefix("SIP/2.0 503") && $0.contains("Call-ID: n\r\n") })
    }

    @Test func `of two servers, the other one gets the call that the first has not answered, and all later ones`()
        throws
    {
        let bench = Self.bench("sip:pbx.example.org")
        let hops = [
            ResolvedHop(transport: .udp, endpoint: EngineBench.pbx),
            ResolvedHop(transport: .udp, endpoint: Self.second),
        ]
        func resolve(_ actions: [ProxyAction]) throws -> [ProxyAction] {
            guard case .resolve(_, let ticket) = try #require(actions.last) else { return [] }
            bench.engine.resolved(ticket, to: hops, now: bench.now)
            return bench.take()
        }
        let asked = try resolve(bench.pass(.zero))
        #expect(story(asked) == ["options > pbx", "options > 10.0.0.3:5060"])
        _ = bench.receive(SIPText.response(200, to: try Self.question(asked), tag: "x"), from: Self.second)
        #expect(story(try resolve(bench.receive(bench.inviteText()))) == ["invite > pbx"])
        let told = story(bench.pass(.seconds(4)))
        #expect(told.contains("invite > 10.0.0.3:5060"))
        #expect(!told.contains("503 invite > phone"))
        let next = try resolve(bench.receive(bench.inviteText(callID: "n", branch: "n")))
        #expect(story(next) == ["invite > 10.0.0.3:5060"])
    }

    @Test func `without a check no question is sent`() {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.engine.restored(now: bench.now)
        #expect(story(bench.pass(.seconds(100))).isEmpty)
    }

    @Test func `a changed upstream is asked, and not the former one`() {
        let bench = Self.bench()
        _ = bench.pass(.seconds(10))
        bench.change { $0.upstream = NextHop("sip:10.0.0.3:5060") }
        #expect(story(bench.pass(.zero)) == ["options > 10.0.0.3:5060"])
        #expect(!bench.engine.upstreamState.health.isAway)
    }
}
