import Bytes
import SIPGrammar
import SIPTransactions
import Testing
import Timekeeping

@Suite("Non-INVITE server transaction (RFC 3261 section 17.2.2, RFC 4320)")
struct NonInviteServerTransactionTests {
    @Test func `says nothing to retransmissions before there is a response`() {
        let machine = NonInviteServerTransaction(isReliable: false, now: start)
        #expect(machine.requestRepeated() == .none)
    }

    @Test func `keeps the final response until timer J over UDP`() {
        var machine = NonInviteServerTransaction(isReliable: false, now: start)
        let later = start + .seconds(1)
        #expect(machine.respond(200, timers, now: later) == .sendFinal(until: later + .seconds(32)))
        #expect(machine.requestRepeated() == .repeatResponse)
        #expect(machine.respond(500, timers, now: later) == .none)
        #expect(machine.waitEnded() == .end)
        #expect(machine.waitEnded() == .none)
    }

    @Test func `ends with the final response on reliable transports`() {
        var machine = NonInviteServerTransaction(isReliable: true, now: start)
        #expect(machine.respond(200, timers, now: start) == .sendFinalAndEnd)
        #expect(machine.state == .ended)
    }

    @Test(arguments: [false, true]) func `a 100 waits until the client has slowed down`(isReliable: Bool) {
        var machine = NonInviteServerTransaction(isReliable: isReliable, now: start)
        let allowed = start + .milliseconds(3500)
        #expect(
            machine.respond(100, timers, now: start + .milliseconds(200)) == .holdProvisional(until: allowed))
        #expect(machine.requestRepeated() == .none)
        #expect(machine.provisionalDue() == .sendProvisional)
        #expect(machine.provisionalDue() == .none)
        #expect(machine.requestRepeated() == .repeatResponse)
    }

    @Test func `a 100 that comes late enough goes at once`() {
        var late = NonInviteServerTransaction(isReliable: false, now: start)
        #expect(late.respond(100, timers, now: start + .milliseconds(3499)) != .sendProvisional)
        #expect(late.respond(100, timers, now: start + .milliseconds(3500)) == .sendProvisional)
    }

    @Test func `a held 100 is forgotten when the final response comes first`() {
        var machine = NonInviteServerTransaction(isReliable: false, now: start)
        _ = machine.respond(100, timers, now: start)
        _ = machine.respond(200, timers, now: start + .seconds(1))
        #expect(machine.provisionalDue() == .none)
    }

    @Test func `no other provisional response is ever sent`() {
        for isReliable in [true, false] {
            var machine = NonInviteServerTransaction(isReliable: isReliable, now: start)
            #expect(machine.respond(180, timers, now: start + .seconds(10)) == .none)
            #expect(machine.respond(199, timers, now: start + .seconds(10)) == .none)
        }
    }

    @Test func `a 408 becomes silence, and no other answer comes after it`() {
        var machine = NonInviteServerTransaction(isReliable: false, now: start)
        #expect(machine.respond(408, timers, now: start) == .stayQuiet(until: start + .seconds(32)))
        #expect(machine.requestRepeated() == .none)
        #expect(machine.respond(200, timers, now: start) == .none)
        #expect(machine.waitEnded() == .end)
        var reliable = NonInviteServerTransaction(isReliable: true, now: start)
        #expect(reliable.respond(408, timers, now: start) == .end)
    }

    @Test func `ends by itself when the client has given up`() {
        var machine = NonInviteServerTransaction(isReliable: true, now: start)
        #expect(machine.patienceEnd(timers) == start + .seconds(32))
        #expect(machine.waitEnded() == .end)
        #expect(machine.respond(200, timers, now: start) == .none)
    }
}
