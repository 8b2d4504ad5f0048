import Bytes
import SIPGrammar
import SIPTransactions
import Testing
import Timekeeping

@Suite("Non-INVITE client transaction (RFC 3261 section 17.1.2)")
struct NonInviteClientTransactionTests {
    @Test func `over UDP the request is repeated at intervals that double up to T2`() {
        var machine = NonInviteClientTransaction(isReliable: false)
        #expect(
            machine.started(timers, now: start)
                == .sendRequest(again: start + .milliseconds(500), until: start + .seconds(32)))
        var now = start + .milliseconds(500)
        for interval in [1, 2, 4, 4, 4] {
            #expect(machine.resendDue(timers, now: now) == .sendAgain(next: now + .seconds(interval)))
            now = now + .seconds(interval)
        }
        #expect(machine.waitEnded() == .endTimedOut)
    }

    @Test func `after a provisional response it is repeated every T2, and timer F still runs`() {
        var machine = NonInviteClientTransaction(isReliable: false)
        #expect(machine.responseReceived(100, timers, now: start) == .tell)
        #expect(machine.resendDue(timers, now: start) == .sendAgain(next: start + .seconds(4)))
        #expect(machine.waitEnded() == .endTimedOut)
    }

    @Test func `over UDP the first final response is reported and timer K absorbs the others`() {
        var machine = NonInviteClientTransaction(isReliable: false)
        #expect(machine.responseReceived(200, timers, now: start) == .tellFinal(until: start + .seconds(5)))
        #expect(machine.responseReceived(200, timers, now: start) == .none)
        #expect(machine.resendDue(timers, now: start) == .none)
        #expect(machine.transportFailed() == .end)
    }

    @Test func `a reliable transport repeats nothing and ends with the final response`() {
        var machine = NonInviteClientTransaction(isReliable: true)
        #expect(machine.started(timers, now: start) == .sendRequest(again: nil, until: start + .seconds(32)))
        #expect(machine.responseReceived(404, timers, now: start) == .tellFinalAndEnd)
        #expect(machine.responseReceived(404, timers, now: start) == .none)
    }

    @Test func `a lost transport fails it`() {
        var machine = NonInviteClientTransaction(isReliable: false)
        _ = machine.responseReceived(100, timers, now: start)
        #expect(machine.transportFailed() == .endFailed)
        #expect(machine.waitEnded() == .none)
    }
}
