import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

typealias InviteServerStory = Story<InviteServerTransaction, InviteServerTransaction.Action>

extension InviteServerStory {
    fileprivate init(_ name: String, isReliable: Bool = false, _ steps: Step...) {
        self.init(name, steps: steps) { InviteServerTransaction(isReliable: isReliable) }
    }
}

extension InviteServerStory.Step {
    fileprivate static func again(_ action: Line) -> Self { Self("INVITE", [action]) { [$0.requestRepeated()] } }
    fileprivate static func respond(_ status: Status, _ action: Line) -> Self {
        Self("\(status)", [action]) { [$0.respond(status, timers, now: start)] }
    }
    fileprivate static func resend(at time: Double, _ action: Line) -> Self {
        Self("resend at \(time) s", [action]) { [$0.resendDue(timers, now: SIPTransactionsTests.at(time))] }
    }
    fileprivate static func ack(at time: Double = 0, _ action: Line) -> Self {
        Self("ACK", [action]) { [$0.acknowledged(timers, now: SIPTransactionsTests.at(time))] }
    }
    fileprivate static func wait(_ action: Line) -> Self { Self("wait ended", [action]) { [$0.waitEnded()] } }
    fileprivate static func state(_ state: InviteServerTransaction.State) -> Self {
        Self("\(state)", []) { $0.state == state ? [] : [.none] }
    }
}

@Suite("INVITE server transaction (RFC 3261 section 17.2.1, RFC 6026)")
struct InviteServerTransactionTests {
    @Test(arguments: [
        InviteServerStory(
            "repeats the last provisional response until there is a final one", .again(.repeatResponse),
            .respond(100, .sendTrying), .again(.repeatTrying), .respond(180, .sendProvisional),
            .again(.repeatResponse), .state(.proceeding)),
        InviteServerStory(
            "a failure over UDP is repeated at timer G until the ACK, whose copies timer I absorbs",
            .respond(486, .sendFailure(again: at(0.5), until: at(32))), .again(.repeatResponse),
            .resend(at: 0.5, .sendAgain(next: at(1.5))), .resend(at: 1.5, .sendAgain(next: at(3.5))),
            .resend(at: 3.5, .sendAgain(next: at(7.5))), .resend(at: 7.5, .sendAgain(next: at(11.5))),
            .resend(at: 11.5, .sendAgain(next: at(15.5))), .ack(at: 15.5, .absorb(until: at(20.5))),
            .ack(at: 15.5, .none), .again(.none), .resend(at: 15.5, .none), .wait(.end), .state(.ended)),
        InviteServerStory(
            "a failure over a reliable transport waits for its ACK once and ends with it", isReliable: true,
            .respond(404, .sendFailure(again: nil, until: at(32))), .ack(.end)),
        InviteServerStory(
            "after a failure every other response is dropped", .respond(487, .none).unseen, .respond(180, .none),
            .respond(200, .none), .respond(487, .none), .respond(603, .none)),
        InviteServerStory(
            "an ACK before any final response changes nothing", .ack(.none), .wait(.none), .state(.proceeding)),
    ])
    func `what it does`(story: InviteServerStory) { #expect(story.faults == []) }

    @Test(arguments: [true, false])
    func `timer H reports the missing ACK`(isReliable: Bool) {
        let story = InviteServerStory(
            "timer H", isReliable: isReliable, .respond(600, .none).unseen, .wait(.endUnacknowledged))
        #expect(story.faults == [])
    }

    @Test(arguments: [true, false])
    func `a 2xx leads to accepted, where further 2xx pass and the INVITE is absorbed in silence`(isReliable: Bool) {
        let story = InviteServerStory(
            "a 2xx", isReliable: isReliable, .respond(200, .sendFirstSuccess(until: at(32))), .again(.none),
            .respond(200, .sendSuccess), .respond(486, .none), .respond(180, .none), .ack(.none), .wait(.end),
            .respond(200, .none))
        #expect(story.faults == [])
    }
}
