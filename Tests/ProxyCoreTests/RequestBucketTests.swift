import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport

/// What RFC 8599 asks of requests that wait for a push, as far as no other suite shows it.
@Suite("Requests that wait (RFC 8599 sections 5.2 to 5.6.2)")
struct RequestBucketTests {
    private static let desk = Endpoint(IPAddress(v4: 0xc000_0209), 40_000)

    @Test func `each contact of a user has its own wait, and those without a token ring at once`() {
        let bench = EngineBench.registered()
        bench.register(token: nil, callID: "desk", from: Self.desk)
        bench.register(token: "tok2", callID: "r2", from: Endpoint(IPAddress(v4: 0xc000_0206), 40_000))
        let told = story(bench.invite())
        #expect(Set(told) == ["100 invite > pbx", "push invite tok1", "push invite tok2", "invite > \(Self.desk)"])
        #expect(told.count == 4)
        #expect(story(bench.register(cseq: 2)).contains("invite > phone"))
        #expect(bench.engine.heldCalls.first?.waiting.count == 1)
    }

    @Test(arguments: [
        ("a provider that is not served", "pn-provider=fcm", "pn-provider=acme", "555"),
        ("a lifetime that is too short", "Expires: 3600", "Expires: 30", "423"),
    ])
    func `a REGISTER that is refused releases nothing, and the call waits for the next`(
        name: String, old: String, new: String, status: String
    ) {
        let bench = EngineBench.registered()
        bench.invite()
        let refused = bench.receive(bench.registerText(cseq: 2).replacing(old, with: new))
        #expect(story(refused) == ["\(status) register > phone"])
        #expect(story(bench.register(cseq: 3)).contains("invite > phone"))
    }

    @Test func `a caller's own push parameters wake nobody and reach nobody`() throws {
        let bench = EngineBench()
        bench.register(token: nil)
        let text = bench.inviteText().replacing(
            "INVITE sip:bob@example.net", with: "INVITE sip:bob@example.net;pn-provider=fcm;pn-param=p;pn-prid=stolen")
        let told = bench.receive(text, from: EngineBench.pbx)
        #expect(told.pushes.isEmpty)
        #expect(try #require(sentRequest(told)).uri.text.string.contains("stolen") == false)
    }

    @Test(arguments: [
        PushOutcome.tokenDead(since: nil), .noSuitableToken, .payloadRefused("too large"), .credentialsRefused("x"),
    ])
    func `a push that fails for good ends the wait with 480`(outcome: PushOutcome) throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, outcome)
        #expect(story(bench.take()).contains("480 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
    }

    @Test func `an ACK and a CANCEL for nobody wait for nobody`() {
        let bench = EngineBench.registered()
        let ack = bench.inviteText(branch: "a").replacing("INVITE", with: "ACK")
        #expect(bench.receive(ack, from: EngineBench.pbx).isEmpty)
        #expect(story(bench.cancel(branch: "never")).contains("push invite tok1") == false)
    }
}
