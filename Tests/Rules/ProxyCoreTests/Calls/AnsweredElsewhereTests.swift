import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

@Suite("Calls that were answered elsewhere")
struct AnsweredElsewhereTests {
    @Test(arguments: [
        (["Reason: SIP;cause=200;text=\"Call completed elsewhere\""], true),
        (["Reason: Q.850;cause=26"], true),
        (["Reason: Q.850 ; cause=16 , sip ;text=\"a, SIP;cause=486\"; cause=200"], true),
        (["Reason: Q.850;cause=16", "Reason: SIP;cause=200"], true),
        (["Reason: SIP;cause=487"], false), (["Reason: Q.850;cause=200"], false), (["Reason: SIP;cause=26"], false),
        (["Reason: SIP;text=\"x;cause=200\""], false), (["Reason: SIP"], false), ([], false),
    ])
    func `a CANCEL with this reason makes no missed call`(reasons: [String], isAnswered: Bool) {
        let bench = EngineBench.registered()
        bench.invite()
        #expect(story(bench.cancel(reasons)).contains("487 invite > pbx"))
        #expect(story(bench.register(cseq: 2)).contains("push missed 103 tok1") == !isAnswered)
    }

    @Test(arguments: [true, false], [true, false])
    func `it also counts when a phone has declined for all, whether the caller has heard of that or not`(
        isOver: Bool, isAnswered: Bool
    ) throws {
        let bench = EngineBench.registered()
        let (silent, asleep) = (
            Endpoint(EngineBench.phone.address, 40_001), Endpoint(EngineBench.phone.address, 40_002)
        )
        bench.register(token: "tok2", callID: "r2", from: asleep)
        if !isOver { bench.register(token: "tok3", callID: "r3", from: silent) }
        bench.invite()
        let declining = try #require(bench.register(cseq: 2).invites.last)
        // The silent phone registers, gets the INVITE, and does not answer.
        if !isOver { bench.register(token: "tok3", callID: "r3", cseq: 2, from: silent) }
        let declined = bench.receive(SIPText.response(603, to: declining, tag: "p"))
        #expect(story(declined).contains("603 invite > pbx") == isOver)
        #expect(story(bench.cancel(isAnswered ? ["Reason: SIP;cause=200"] : [])) == ["200 cancel > pbx"])
        #expect(story(bench.pass(.seconds(40))).contains("603 invite > pbx"))
        let returned = story(bench.register(token: "tok2", callID: "r2", cseq: 2, from: asleep))
        #expect(returned.contains("push missed 103 tok2") == !isAnswered)
    }

    @Test func `the ringing phone gets the reason in a form that it knows`() {
        let story = PhoneStory(
            "it rings", .called(), .cancel(reasons: ["Q.850;cause=26"], "200 cancel > pbx", "cancel > 0"),
            .reasons("SIP;cause=200;text=\"Call completed elsewhere\"", "Q.850;cause=26"))
        #expect(story.faults == [])
    }
}
