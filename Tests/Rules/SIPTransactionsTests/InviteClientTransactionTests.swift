import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

typealias InviteClientStory = Story<InviteClientTransaction, InviteClientTransaction.Action>

extension InviteClientStory {
    fileprivate init(_ name: String, isReliable: Bool = false, _ steps: Step...) {
        self.init(name, steps: steps) { InviteClientTransaction(isReliable: isReliable) }
    }
}

extension InviteClientStory.Step {
    fileprivate static func started(_ action: Line) -> Self {
        Self("started", [action]) { [$0.started(timers, now: start)] }
    }
    fileprivate static func resend(at time: Double = 0, _ action: Line) -> Self {
        Self("resend at \(time) s", [action]) { [$0.resendDue(timers, now: SIPTransactionsTests.at(time))] }
    }
    fileprivate static func response(_ status: Status, at time: Double = 0, _ action: Line) -> Self {
        Self("\(status)", [action]) { [$0.responseReceived(status, timers, now: SIPTransactionsTests.at(time))] }
    }
    fileprivate static func cancel(_ action: Line) -> Self {
        Self("cancel", [action]) { [$0.cancelRequested(timers, now: start)] }
    }
    fileprivate static func wait(_ action: Line) -> Self { Self("wait ended", [action]) { [$0.waitEnded()] } }
    fileprivate static func failed(_ action: Line) -> Self { Self("failed", [action]) { [$0.transportFailed()] } }
    fileprivate static func state(_ state: InviteClientTransaction.State) -> Self {
        Self("\(state)", []) { $0.state == state ? [] : [.none] }
    }
}

private let patience = at(32)

@Suite("INVITE client transaction (RFC 3261 section 17.1.1, RFC 6026)")
struct InviteClientTransactionTests {
    @Test(arguments: [
        InviteClientStory(
            "over UDP the request is repeated at doubling intervals without a limit",
            .started(.sendRequest(again: at(0.5), until: patience)), .resend(at: 0.5, .sendAgain(next: at(1.5))),
            .resend(at: 1.5, .sendAgain(next: at(3.5))), .resend(at: 3.5, .sendAgain(next: at(7.5))),
            .resend(at: 7.5, .sendAgain(next: at(15.5))), .resend(at: 15.5, .sendAgain(next: at(31.5))),
            .wait(.endTimedOut), .state(.ended)),
        InviteClientStory(
            "a reliable transport repeats nothing, and timer B still runs", isReliable: true,
            .started(.sendRequest(again: nil, until: patience)), .wait(.endTimedOut)),
        InviteClientStory(
            "after a provisional response nothing is repeated, and timer C alone runs",
            .response(100, .tellProvisional(until: at(0) + timers.ringLimit)), .response(100, at: 1, .tell),
            .response(180, at: 2, .tellRinging(until: at(2) + timers.ringLimit)),
            .response(183, at: 3, .tellRinging(until: at(3) + timers.ringLimit)), .resend(.none),
            .wait(.tellRangTooLong), .state(.proceeding), .cancel(.sendCancel(until: patience))),
        InviteClientStory(
            "a failure is acknowledged, over UDP again for each copy until timer D",
            .response(486, .acknowledgeAndTell(until: patience)), .response(486, .acknowledgeAgain),
            .response(180, .none), .response(200, .none), .wait(.end)),
        InviteClientStory(
            "so it is after a provisional response", .response(180, .none).unseen,
            .response(486, .acknowledgeAndTell(until: patience)), .response(486, .acknowledgeAgain),
            .response(180, .none), .response(200, .none), .wait(.end)),
        InviteClientStory(
            "a failure on a reliable transport is acknowledged and ends it", isReliable: true,
            .response(503, .acknowledgeTellAndEnd), .state(.ended)),
    ])
    func `the request and its failure`(story: InviteClientStory) { #expect(story.faults == []) }

    @Test(arguments: [true, false])
    func `every 2xx is reported until timer M, and failures after the first are not`(isReliable: Bool) {
        let story = InviteClientStory(
            "a 2xx", isReliable: isReliable, .response(200, .tellSuccess(until: patience)), .response(200, .tell),
            .response(202, .tell), .response(486, .none), .response(183, .none), .wait(.end), .response(200, .none))
        #expect(story.faults == [])
    }

    @Test(arguments: [
        InviteClientStory(
            "it waits for the first provisional response", .cancel(.holdCancel), .cancel(.none),
            .resend(.sendAgain(next: at(1))), .response(100, .tellProvisionalAndCancel(until: patience)),
            .response(180, .tell), .response(487, .acknowledgeAndTell(until: patience))),
        InviteClientStory(
            "it goes at once after a provisional response, and only once", isReliable: true,
            .response(180, .none).unseen, .cancel(.sendCancel(until: patience)), .cancel(.none), .wait(.endTimedOut)),
        InviteClientStory(
            "a final response takes the place of one that waited", .cancel(.holdCancel),
            .response(200, .tellSuccess(until: patience)), .cancel(.none)),
    ])
    func `a CANCEL`(story: InviteClientStory) { #expect(story.faults == []) }

    @Test(arguments: [
        InviteClientStory("fails one that nobody answered", isReliable: true, .failed(.endFailed)),
        InviteClientStory("fails one that rings", isReliable: true, .response(180, .none).unseen, .failed(.endFailed)),
        InviteClientStory(
            "fails one that is cancelled", isReliable: true, .response(180, .none).unseen,
            .cancel(.sendCancel(until: patience)), .failed(.endFailed)),
        InviteClientStory("ends one that was refused", .response(486, .none).unseen, .failed(.end)),
        InviteClientStory(
            "is nothing to one that was accepted", isReliable: true, .response(200, .none).unseen, .failed(.none)),
    ])
    func `a lost transport`(story: InviteClientStory) { #expect(story.faults == []) }
}
