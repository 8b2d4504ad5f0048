import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Testing

/// Tests the requirements of RFC 8599 for waiting requests that no other suite tests.
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
    func `a refused REGISTER releases no call, and the call waits for the next REGISTER`(
        name: String, old: String, new: String, status: String
    ) {
        let bench = EngineBench.registered()
        bench.invite()
        let refused = bench.receive(bench.registerText(cseq: 2).replacing(old, with: new))
        #expect(story(refused) == ["\(status) register > phone"])
        #expect(story(bench.register(cseq: 3)).contains("invite > phone"))
    }

    @Test func `each held call has its own timer, and its end does not change other held calls`() {
        let bench = EngineBench.registered()
        bench.invite()
        #expect(story(bench.pass(.seconds(10))) == [])
        bench.invite(callID: "call2", branch: "i2")
        #expect(story(bench.pass(.milliseconds(19_900))) == [])
        #expect(story(bench.pass(.milliseconds(200))).filter { $0.hasPrefix("480") } == ["480 invite > pbx"])
        // The daemon repeats the 480 of the first call, because the caller has not acknowledged this 480.
        _ = bench.pass(.milliseconds(9800))
        #expect(bench.engine.heldCalls.count == 1)
        #expect(story(bench.pass(.milliseconds(200))).contains("480 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
    }

    @Test func `a REGISTER releases held requests only after the store has accepted the REGISTER`() {
        let bench = EngineBench.registered()
        bench.invite()
        let elsewhere = Endpoint(IPAddress(v4: 0xcb00_7101), 1234)
        for succeeds in [false, true] {
            let register = bench.receive(
                bench.registerText(callID: "\(succeeds)", from: elsewhere), from: elsewhere)
            #expect(story(register) == ["commit"])
            #expect(story(bench.pass(.seconds(1))) == [])
            let told = story(bench.commitAll(in: register, succeeded: succeeds))
            #expect(told.first == "\(succeeds ? 200 : 503) register > \(elsewhere)")
            #expect(told.contains("invite > \(elsewhere)") == succeeds)
        }
    }

    @Test func `a challenge or a wrong password does not change held requests`() throws {
        let bench = EngineBench.authenticating()
        _ = bench.commitAll(in: bench.receiveProved(bench.registerText(), as: "bob"))
        bench.invite()
        let text = bench.registerText(cseq: 5)
        let challenged = bench.receive(text)
        #expect(story(challenged) == ["401 register > phone"])
        let challenge = try #require(sentResponse(challenged))
        let wrong = bench.receive(TestDigest.answer(challenge, to: text, as: "bob", password: "other"))
        #expect(story(wrong) == ["401 register > phone"])
        #expect(bench.engine.heldCalls.count == 1)
        let proved = bench.receiveProved(bench.registerText(cseq: 9), as: "bob")
        #expect(story(proved + bench.commitAll(in: proved)).contains("invite > phone"))
    }

    @Test func `the longest permitted wait ends before the sender's transaction times out`() {
        let bench = EngineBench { $0.messages.wait = .seconds(25) }
        bench.register(expires: 60)
        _ = bench.pass(.seconds(100))
        let message = SIPText.bytes([
            "MESSAGE sip:bob@example.net SIP/2.0", "Via: SIP/2.0/UDP \(EngineBench.pbx);rport;branch=z9hG4bKm",
            "From: <sip:103@example.net>;tag=m", "To: <sip:bob@example.net>", "Call-ID: m", "CSeq: 1 MESSAGE",
            "Max-Forwards: 70",
        ])
        #expect(bench.receive(message, from: EngineBench.pbx).pushes.count == 1)
        let told = story(bench.pass(.seconds(26)))
        #expect(told == ["100 message > pbx", "480 message > pbx"])
        #expect(story(bench.pass(.seconds(10))) == [])
    }

    @Test func `the caller gets 100 at once, and no other response while the call is held`() throws {
        let bench = EngineBench.registered()
        let first = bench.invite()
        #expect(story(first) == ["100 invite > pbx", "push invite tok1"])
        #expect(try #require(sentResponse(first)).to.tag == nil)
        #expect(story(bench.pass(.milliseconds(29_900))) == [])
    }

    @Test func `a retransmitted or looped INVITE causes no second push`() {
        let bench = EngineBench.registered()
        #expect(bench.invite().pushes.count == 1)
        #expect(story(bench.invite()) == ["100 invite > pbx"])
        #expect(story(bench.invite(branch: "other")) == ["482 invite > pbx"])
    }

    @Test func `a caller's own push parameters cause no push and reach no phone`() throws {
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
    func `a final failure of the push ends the wait with 480`(outcome: PushOutcome) throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, outcome)
        #expect(story(bench.take()).contains("480 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
    }

    @Test func `an ACK or CANCEL without a call is not held`() {
        let bench = EngineBench.registered()
        let ack = bench.inviteText(branch: "a").replacing("INVITE", with: "ACK")
        #expect(bench.receive(ack, from: EngineBench.pbx).isEmpty)
        #expect(story(bench.cancel(branch: "never")).contains("push invite tok1") == false)
    }
}
