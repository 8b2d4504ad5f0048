import ProxyCore
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

@Suite("How long a phone may ring: timer C (RFC 3261 sections 16.6 and 16.8)")
struct RingLimitTests {
    @Test func `a 180 begins the time anew, a 100 does not; then the phone is cancelled and the caller hears 408`()
        throws
    {
        let bench = EngineBench { $0.call.ringLimit = .seconds(190) }
        bench.register(token: nil)
        let invite = try #require(bench.invite().texts.compactMap { readRequest(Array($0.utf8)) }.last)
        let answer = { (status: Status) in
            story(bench.receive(SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5")))
        }
        #expect(answer(180) == ["180 invite > pbx"])
        #expect(story(bench.pass(.seconds(180))).isEmpty)
        #expect(answer(183) == ["183 invite > pbx"])
        #expect(story(bench.pass(.seconds(180))).isEmpty)
        #expect(answer(100).isEmpty)
        #expect(story(bench.pass(.seconds(9))).isEmpty)
        #expect(Set(story(bench.pass(.seconds(2)))).isSuperset(of: ["cancel > phone", "408 invite > pbx"]))
        #expect(answer(487).contains("ack > phone"))
    }
}
