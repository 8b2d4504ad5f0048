import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

typealias NonInviteServerStory = Story<NonInviteServerTransaction, NonInviteServerTransaction.Action>

extension NonInviteServerStory {
    fileprivate init(_ name: String, isReliable: Bool = false, _ steps: Step...) {
        self.init(name, steps: steps) { NonInviteServerTransaction(isReliable: isReliable, now: start) }
    }
}

extension NonInviteServerStory.Step {
    fileprivate static func again(_ action: Line) -> Self { Self("request", [action]) { [$0.requestRepeated()] } }
    fileprivate static func respond(_ status: Status, at time: Double = 0, _ action: Line) -> Self {
        Self("\(status) at \(time) s", [action]) { [$0.respond(status, timers, now: SIPTransactionsTests.at(time))] }
    }
    fileprivate static func due(_ action: Line) -> Self { Self("100 due", [action]) { [$0.provisionalDue()] } }
    fileprivate static func wait(_ action: Line) -> Self { Self("wait ended", [action]) { [$0.waitEnded()] } }
    fileprivate static var ended: Self { Self("ended", []) { $0.state == .ended ? [] : [.none] } }
}

@Suite("Non-INVITE server transaction (RFC 3261 section 17.2.2, RFC 4320)")
struct NonInviteServerTransactionTests {
    @Test(arguments: [
        NonInviteServerStory("says nothing to retransmissions before there is a response", .again(.none)),
        NonInviteServerStory(
            "keeps the final response until timer J over UDP", .respond(200, at: 1, .sendFinal(until: at(33))),
            .again(.repeatResponse), .respond(500, at: 1, .none), .wait(.end), .wait(.none)),
        NonInviteServerStory(
            "ends with the final response on reliable transports", isReliable: true, .respond(200, .sendFinalAndEnd),
            .ended),
        NonInviteServerStory(
            "a 100 that comes early waits", .respond(100, at: 3.499, .holdProvisional(until: at(3.5)))),
        NonInviteServerStory("a 100 that comes late enough goes at once", .respond(100, at: 3.5, .sendProvisional)),
        NonInviteServerStory(
            "a held 100 is forgotten when the final response comes first", .respond(100, .none).unseen,
            .respond(200, at: 1, .none).unseen, .due(.none)),
        NonInviteServerStory(
            "a 408 becomes silence, and no other answer comes after it", .respond(408, .stayQuiet(until: at(32))),
            .again(.none), .respond(200, .none), .wait(.end)),
        NonInviteServerStory("a 408 ends it on reliable transports", isReliable: true, .respond(408, .end)),
        NonInviteServerStory(
            "ends by itself when the client has given up", isReliable: true, .wait(.end), .respond(200, .none)),
    ])
    func `what it does`(story: NonInviteServerStory) { #expect(story.faults == []) }

    @Test func `the client gives up after 32 s`() {
        #expect(NonInviteServerTransaction(isReliable: true, now: start).patienceEnd(timers) == at(32))
    }

    @Test(arguments: [false, true]) func `a 100 waits until the client has slowed down`(isReliable: Bool) {
        let story = NonInviteServerStory(
            "a 100", isReliable: isReliable, .respond(100, at: 0.2, .holdProvisional(until: at(3.5))), .again(.none),
            .due(.sendProvisional), .due(.none), .again(.repeatResponse))
        #expect(story.faults == [])
    }

    @Test(arguments: [false, true]) func `no other provisional response is ever sent`(isReliable: Bool) {
        let story = NonInviteServerStory(
            "a 18x", isReliable: isReliable, .respond(180, at: 10, .none), .respond(199, at: 10, .none))
        #expect(story.faults == [])
    }
}
