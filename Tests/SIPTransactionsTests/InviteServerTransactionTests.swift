import Bytes
import SIPGrammar
import SIPTransactions
import Testing
import Timekeeping

@Suite("INVITE server transaction (RFC 3261 section 17.2.1, RFC 6026)")
struct InviteServerTransactionTests {
    @Test func `repeats the last provisional response until there is a final one`() {
        var machine = InviteServerTransaction(isReliable: false)
        #expect(machine.requestRepeated() == .repeatResponse)
        #expect(machine.respond(100, timers, now: start) == .sendProvisional)
        #expect(machine.respond(180, timers, now: start) == .sendProvisional)
        #expect(machine.requestRepeated() == .repeatResponse)
        #expect(machine.state == .proceeding)
    }

    @Test func `a failure over UDP is repeated at timer G until the ACK, whose copies timer I absorbs`() {
        var machine = InviteServerTransaction(isReliable: false)
        #expect(
            machine.respond(486, timers, now: start)
                == .sendFailure(again: start + .milliseconds(500), until: start + .seconds(32)))
        #expect(machine.requestRepeated() == .repeatResponse)
        var now = start + .milliseconds(500)
        for interval in [1, 2, 4, 4, 4] {
            #expect(machine.resendDue(timers, now: now) == .sendAgain(next: now + .seconds(interval)))
            now = now + .seconds(interval)
        }
        #expect(machine.acknowledged(timers, now: now) == .absorb(until: now + .seconds(5)))
        #expect(machine.acknowledged(timers, now: now) == .none)
        #expect(machine.requestRepeated() == .none)
        #expect(machine.resendDue(timers, now: now) == .none)
        #expect(machine.waitEnded() == .end)
        #expect(machine.state == .ended)
    }

    @Test func `a failure over a reliable transport waits for its ACK once and ends with it`() {
        var machine = InviteServerTransaction(isReliable: true)
        #expect(machine.respond(404, timers, now: start) == .sendFailure(again: nil, until: start + .seconds(32)))
        #expect(machine.acknowledged(timers, now: start) == .end)
    }

    @Test(arguments: [true, false])
    func `timer H tells that nobody acknowledged`(isReliable: Bool) {
        var machine = InviteServerTransaction(isReliable: isReliable)
        _ = machine.respond(600, timers, now: start)
        #expect(machine.waitEnded() == .endUnacknowledged)
    }

    @Test(arguments: [true, false])
    func `a 2xx leads to accepted, where further 2xx pass and the INVITE is absorbed in silence`(isReliable: Bool) {
        var machine = InviteServerTransaction(isReliable: isReliable)
        #expect(machine.respond(200, timers, now: start) == .sendFirstSuccess(until: start + .seconds(32)))
        #expect(machine.requestRepeated() == .none)
        #expect(machine.respond(200, timers, now: start) == .sendSuccess)
        #expect(machine.respond(486, timers, now: start) == .none)
        #expect(machine.respond(180, timers, now: start) == .none)
        #expect(machine.acknowledged(timers, now: start) == .none)
        #expect(machine.waitEnded() == .end)
        #expect(machine.respond(200, timers, now: start) == .none)
    }

    @Test func `after a failure every other response is dropped`() {
        var machine = InviteServerTransaction(isReliable: false)
        _ = machine.respond(487, timers, now: start)
        for status: UInt16 in [180, 200, 487, 603] {
            #expect(machine.respond(.init(code: status), timers, now: start) == .none)
        }
    }

    @Test func `an ACK before any final response changes nothing`() {
        var machine = InviteServerTransaction(isReliable: false)
        #expect(machine.acknowledged(timers, now: start) == .none)
        #expect(machine.waitEnded() == .none)
        #expect(machine.state == .proceeding)
    }
}
