import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Routing
import SIPGrammar
import TestSupport
import Testing

@Suite("Allowed and refused calls")
struct EnginePolicyTests {
    @Test func `an unknown user is 404, a foreign domain 403`() {
        let bench = EngineBench()
        #expect(story(bench.invite(to: "nobody")) == ["404 invite > pbx"])
        let foreign = bench.inviteText(branch: "other")
            .replacing("INVITE sip:bob@example.net", with: "INVITE sip:bob@elsewhere.org")
        #expect(story(bench.receive(foreign, from: EngineBench.pbx)) == ["403 invite > pbx"])
    }

    @Test func `a call from a phone is challenged when authentication is on`() {
        let bench = EngineBench { $0.authenticates = true }
        #expect(story(bench.receive(bench.inviteText())) == ["407 invite > phone"])
        #expect(story(bench.receive(bench.registerText())) == ["401 register > phone"])
    }

    @Test func `a call from a phone goes to the upstream`() {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.register(user: "103")
        let out = bench.receive(bench.inviteText())
        #expect(story(out) == ["100 invite > phone", "invite > pbx"])
    }

    @Test func `an upstream with a name is looked up first`() {
        let bench = EngineBench { $0.upstream = NextHop("sip:pbx.example.org") }
        let out = bench.receive(bench.inviteText())
        #expect(story(out) == ["100 invite > phone", "resolve"])
        guard case .resolve(_, let ticket) = out.last else { return }
        bench.engine.resolved(ticket, to: [ResolvedHop(transport: .udp, endpoint: EngineBench.pbx)], now: bench.now)
        #expect(story(bench.take()) == ["invite > pbx"])
    }

    @Test func `a name without an address fails the call`() {
        let bench = EngineBench { $0.upstream = NextHop("sip:pbx.example.org") }
        guard case .resolve(_, let ticket) = bench.receive(bench.inviteText()).last else {
            Issue.record("no look-up")
            return
        }
        bench.engine.resolved(ticket, to: [], now: bench.now)
        #expect(story(bench.take()) == ["500 invite > phone"])
    }

    @Test(arguments: [
        ("Max-Forwards: 70", "Max-Forwards: 0", "483"),
        ("Max-Forwards: 70", "Max-Forwards: 70\r\nProxy-Require: x", "420"),
        ("INVITE sip:bob@example.net", "INVITE http://bob@example.net", "416"),
    ])
    func `the refusals of RFC 3261 section 16.3`(old: String, new: String, status: String) {
        let bench = EngineBench()
        let text = bench.inviteText().replacing(old, with: new)
        #expect(story(bench.receive(text, from: EngineBench.pbx)) == ["\(status) invite > pbx"])
    }

    @Test func `the challenges of all devices reach the caller in one response`() {
        let bench = EngineBench()
        let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        bench.register(token: nil)
        bench.register(token: nil, callID: "r2", from: other)
        var answers: [ProxyAction] = []
        for (index, action) in bench.invite().enumerated() {
            guard case .send(let bytes, let flow) = action, flow.remote != EngineBench.pbx,
                let request = SIPText.readRequest(bytes)
            else { continue }
            let answer = SIPText.response(401, to: request, tag: "t\(index)")
                .replacing("Call-ID:", with: "WWW-Authenticate: Digest realm=\"\(flow.remote.address)\"\r\nCall-ID:")
            answers += bench.receive(answer, from: flow.remote)
        }
        let final = answers.texts.first { $0.hasPrefix("SIP/2.0 401") }
        #expect(final?.contains("WWW-Authenticate: Digest realm=\"192.0.2.5\"\r\n") == true)
        #expect(final?.contains("WWW-Authenticate: Digest realm=\"192.0.2.6\"\r\n") == true)
    }

    @Test func `a forged dialog token is refused`() {
        let bench = EngineBench()
        let route = "Route: <sip:00112233445566778899aabbccddeeff00112233@10.0.0.1:5060;lr>"
        #expect(story(bench.invite(extra: [route])) == ["403 invite > pbx"])
    }

    @Test func `requests inside a dialog go to the other side, wherever the phone has moved`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let ok = bench.receive(SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        let answer = try #require(sentResponse(ok))
        let original = try #require(readRequest(bench.inviteText()))
        let ack = SIPText.dialogRequest(
            "ACK", cseq: 1, invite: original, answer: answer, at: EngineBench.pbx, branch: "a")
        #expect(story(bench.receive(ack, from: EngineBench.pbx)) == ["ack > phone"])

        let moved = Endpoint(IPAddress(v4: 0xcb00_7102), 999)
        bench.register(callID: "r2", from: moved)
        let bye = SIPText.dialogRequest(
            "BYE", cseq: 2, invite: original, answer: answer, at: EngineBench.pbx, branch: "b")
        #expect(story(bench.receive(bye, from: EngineBench.pbx)) == ["bye > \(moved)"])
    }

    @Test func `an unreadable request gets 400 if it can be answered`() {
        let bench = EngineBench()
        let text = bench.inviteText().replacing("CSeq: 1 INVITE", with: "CSeq: 1 BYE")
        #expect(bench.receive(text, from: EngineBench.pbx).texts.first?.hasPrefix("SIP/2.0 400 ") == true)
        #expect(bench.receive(Array("hello".utf8)).isEmpty)
    }
}
