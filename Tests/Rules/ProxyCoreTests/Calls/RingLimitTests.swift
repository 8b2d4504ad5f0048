import ProxyCore
import ProxyPolicy
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("How long a phone may ring: timer C (RFC 3261 sections 16.6 and 16.8)")
struct RingLimitTests {
    @Test
    func `a 180 restarts the time, and a 100 does not; at the end the phone is cancelled and the caller gets 408`() {
        let story = PhoneStory(
            "timer C", where: { $0.call.ringLimit = .seconds(190) }, .register(token: nil), .plainCall,
            .answer(180, "180 invite > pbx"), .pass(180), .answer(183, "183 invite > pbx"), .pass(180), .answer(100),
            .pass(9), .pass(2).including("cancel > 0", "408 invite > pbx"), .answer(487).including("ack > 0"))
        #expect(story.faults == [])
    }
}
