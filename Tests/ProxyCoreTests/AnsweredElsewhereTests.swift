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
    func `a CANCEL that says so makes no missed call`(reasons: [String], isAnswered: Bool) {
        let bench = EngineBench.registered()
        bench.invite()
        #expect(story(bench.cancel(reasons)).contains("487 invite > pbx"))
        #expect(story(bench.register(cseq: 2)).contains("push missed 103 tok1") == !isAnswered)
    }

    @Test func `the phone that rings hears it in words that it knows`() {
        let story = PhoneStory(
            "it rings", .called(), .cancel(reasons: ["Q.850;cause=26"], "200 cancel > pbx", "cancel > 0"),
            .reasons("SIP;cause=200;text=\"Call completed elsewhere\"", "Q.850;cause=26"))
        #expect(story.faults == [])
    }
}
