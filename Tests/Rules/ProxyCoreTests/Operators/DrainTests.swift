import Addressing
import ProxyCore
import SIPGrammar
import Testing
import TestSupport

@Suite("Drain of a daemon")
struct DrainTests {
    @Test func `it starts no calls, and open ones continue to their end`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        bench.engine.drainBegins()
        #expect(bench.engine.callsUnderWay == 1)
        let refused = bench.invite(callID: "call2", branch: "i2")
        #expect(story(refused) == ["503 invite > pbx"])
        #expect(refused.texts.first?.contains("\r\nRetry-After: ") == true)
        // The phone wakes up and answers.
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        #expect(invite.method == .invite)
        let answer = bench.receive(SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        #expect(story(answer).contains("200 invite > pbx"))
        #expect(bench.engine.callsUnderWay == 0)
    }

    @Test func `a CANCEL ends a call that waits, and requests other than calls are served`() {
        let bench = EngineBench.registered()
        bench.invite()
        bench.engine.drainBegins()
        #expect(story(bench.register(user: "carl", callID: "r2")).contains("200 register > phone"))
        #expect(story(bench.cancel()).contains("487 invite > pbx"))
        #expect(bench.engine.callsUnderWay == 0)
    }
}
