import Bytes
import SIPGrammar
import SIPTransactions
import Testing
import Timekeeping

@Suite("INVITE client transaction (RFC 3261 section 17.1.1, RFC 6026)")
struct InviteClientTransactionTests {
    private let patience = start + .seconds(32)

    @Test func `over UDP the request is repeated at doubling intervals without a limit`() {
        var machine = InviteClientTransaction(isReliable: false)
        #expect(
            machine.started(timers, now: start)
                == .sendRequest(again: start + .milliseconds(500), until: start + .seconds(32)))
        var now = start + .milliseconds(500)
        for interval in [1, 2, 4, 8, 16] {
            #expect(machine.resendDue(timers, now: now) == .sendAgain(next: now + .seconds(interval)))
            now = now + .seconds(interval)
        }
        #expect(machine.waitEnded() == .endTimedOut)
        #expect(machine.state == .ended)
    }

    @Test func `a reliable transport repeats nothing, and timer B still runs`() {
        var machine = InviteClientTransaction(isReliable: true)
        #expect(machine.started(timers, now: start) == .sendRequest(again: nil, until: patience))
        #expect(machine.waitEnded() == .endTimedOut)
    }

    @Test func `after a provisional response nothing is repeated, and timer C alone runs`() {
        var machine = InviteClientTransaction(isReliable: false)
        let ring = { (seconds: Int) in start + .seconds(seconds) + timers.ringLimit }
        #expect(machine.responseReceived(100, timers, now: start) == .tellProvisional(until: ring(0)))
        #expect(machine.responseReceived(100, timers, now: start + .seconds(1)) == .tell)
        #expect(machine.responseReceived(180, timers, now: start + .seconds(2)) == .tellRinging(until: ring(2)))
        #expect(machine.responseReceived(183, timers, now: start + .seconds(3)) == .tellRinging(until: ring(3)))
        #expect(machine.resendDue(timers, now: start) == .none)
        #expect(machine.waitEnded() == .tellRangTooLong)
        #expect(machine.state == .proceeding)
        #expect(machine.cancelRequested(timers, now: start) == .sendCancel(until: patience))
    }

    @Test(arguments: [true, false])
    func `a failure is acknowledged, over UDP again for each copy until timer D`(provisionalFirst: Bool) {
        var machine = InviteClientTransaction(isReliable: false)
        if provisionalFirst { _ = machine.responseReceived(180, timers, now: start) }
        #expect(machine.responseReceived(486, timers, now: start) == .acknowledgeAndTell(until: patience))
        #expect(machine.responseReceived(486, timers, now: start) == .acknowledgeAgain)
        #expect(machine.responseReceived(180, timers, now: start) == .none)
        #expect(machine.responseReceived(200, timers, now: start) == .none)
        #expect(machine.waitEnded() == .end)
    }

    @Test func `a failure on a reliable transport is acknowledged and ends it`() {
        var machine = InviteClientTransaction(isReliable: true)
        #expect(machine.responseReceived(503, timers, now: start) == .acknowledgeTellAndEnd)
        #expect(machine.state == .ended)
    }

    @Test(arguments: [true, false])
    func `every 2xx goes up until timer M, failures after the first do not`(isReliable: Bool) {
        var machine = InviteClientTransaction(isReliable: isReliable)
        #expect(machine.responseReceived(200, timers, now: start) == .tellSuccess(until: patience))
        #expect(machine.responseReceived(200, timers, now: start) == .tell)
        #expect(machine.responseReceived(202, timers, now: start) == .tell)
        #expect(machine.responseReceived(486, timers, now: start) == .none)
        #expect(machine.responseReceived(183, timers, now: start) == .none)
        #expect(machine.waitEnded() == .end)
        #expect(machine.responseReceived(200, timers, now: start) == .none)
    }

    @Test func `CANCEL waits for the first provisional response`() {
        var machine = InviteClientTransaction(isReliable: false)
        #expect(machine.cancelRequested(timers, now: start) == .holdCancel)
        #expect(machine.cancelRequested(timers, now: start) == .none)
        #expect(machine.resendDue(timers, now: start) == .sendAgain(next: start + .seconds(1)))
        #expect(machine.responseReceived(100, timers, now: start) == .tellProvisionalAndCancel(until: patience))
        #expect(machine.responseReceived(180, timers, now: start) == .tell)
        #expect(machine.responseReceived(487, timers, now: start) == .acknowledgeAndTell(until: patience))
    }

    @Test func `CANCEL goes at once after a provisional response, and only once`() {
        var machine = InviteClientTransaction(isReliable: true)
        _ = machine.responseReceived(180, timers, now: start)
        #expect(machine.cancelRequested(timers, now: start) == .sendCancel(until: patience))
        #expect(machine.cancelRequested(timers, now: start) == .none)
        #expect(machine.waitEnded() == .endTimedOut)
    }

    @Test func `a final response takes the place of a CANCEL that waited`() {
        var machine = InviteClientTransaction(isReliable: false)
        _ = machine.cancelRequested(timers, now: start)
        #expect(machine.responseReceived(200, timers, now: start) == .tellSuccess(until: patience))
        #expect(machine.cancelRequested(timers, now: start) == .none)
    }

    @Test func `a lost transport fails it until a final response came`() {
        for responses: [UInt16] in [[], [180]] {
            var machine = InviteClientTransaction(isReliable: true)
            for code in responses { _ = machine.responseReceived(.init(code: code), timers, now: start) }
            #expect(machine.transportFailed() == .endFailed)
        }
        var cancelled = InviteClientTransaction(isReliable: true)
        _ = cancelled.responseReceived(180, timers, now: start)
        _ = cancelled.cancelRequested(timers, now: start)
        #expect(cancelled.transportFailed() == .endFailed)
        var refused = InviteClientTransaction(isReliable: false)
        _ = refused.responseReceived(486, timers, now: start)
        #expect(refused.transportFailed() == .end)
        var accepted = InviteClientTransaction(isReliable: true)
        _ = accepted.responseReceived(200, timers, now: start)
        #expect(accepted.transportFailed() == .none)
    }
}
