import Bytes
import PushDelivery
import Testing
import Timekeeping

private let start = Instant(nanoseconds: 1_000_000_000_000)

private func at(_ milliseconds: Int) -> Instant { start + .milliseconds(milliseconds) }

private func attempt(deadline: Int = 30_000, pauses: PushRetries.Pauses = .call) -> PushRetries {
    PushRetries(pauses: pauses, deadline: at(deadline), answerTimeout: .seconds(5))
}

@Suite("Attempts of one push")
struct PushRetriesTests {
    @Test func `a push that is accepted is sent once`() {
        var push = attempt()
        #expect(push.turnCame(now: at(0)) == .send(until: at(5_000)))
        #expect(push.turnCame(now: at(1)) == .none)
        #expect(push.answered(.accepted(nil), chance: 0.5, now: at(50)) == .finish(.accepted(nil)))
        #expect(push.state == .ended)
        #expect(push.answered(.accepted(nil), chance: 0.5, now: at(60)) == .none)
    }

    @Test func `a failing provider is tried after 0_3, 1 and 3 seconds, then every 5 until the call is over`() {
        var push = attempt()
        var now = 0
        for pause in [300, 1_000, 3_000, 5_000, 5_000, 5_000, 5_000] {
            #expect(push.turnCame(now: at(now)) == .send(until: at(now + 5_000)))
            #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(now)) == .arm(at(now + pause)))
            now += pause
            #expect(push.deadlineReached(now: at(now)) == .enqueue)
        }
        now += 1_000
        #expect(push.turnCame(now: at(now)) == .send(until: at(now + 4_700)))
        #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(now)) == .finish(.retry(after: nil)))
    }

    @Test func `there are only so many tries`() {
        var push = attempt(deadline: 1_000_000, pauses: PushRetries.Pauses(durations: [.seconds(1)]))
        _ = push.turnCame(now: at(0))
        #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(0)) == .arm(at(1_000)))
        _ = push.deadlineReached(now: at(1_000))
        _ = push.turnCame(now: at(1_000))
        #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(1_000)) == .finish(.retry(after: nil)))
    }

    @Test func `a list of missed calls takes its time`() {
        var push = attempt(deadline: 120_000, pauses: .missedCalls)
        _ = push.turnCame(now: at(0))
        #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(0)) == .arm(at(1_000)))
    }

    @Test(arguments: [(0.0, 225), (0.5, 300), (1.0, 375), (-3.0, 225), (7.0, 375)])
    func `chance spreads the tries of many`(chance: Double, pause: Int) {
        var push = attempt()
        _ = push.turnCame(now: at(0))
        #expect(push.answered(.retry(after: nil), chance: chance, now: at(0)) == .arm(at(pause)))
    }

    @Test func `Retry-After is honoured`() {
        var push = attempt()
        _ = push.turnCame(now: at(0))
        #expect(push.answered(.retry(after: .seconds(7)), chance: 0.5, now: at(0)) == .arm(at(7_000)))
        #expect(push.deadlineReached(now: at(6_999)) == .arm(at(7_000)))
        #expect(push.deadlineReached(now: at(7_000)) == .enqueue)
    }

    @Test func `no attempt is made after the deadline`() {
        var push = attempt(deadline: 10_000)
        _ = push.turnCame(now: at(0))
        let outcome = PushOutcome.retry(after: .seconds(10))
        #expect(push.answered(outcome, chance: 0.5, now: at(0)) == .finish(outcome))
    }

    @Test func `the last try's time ends with the push's life`() {
        var push = attempt(deadline: 10_000)
        #expect(push.turnCame(now: at(8_000)) == .send(until: at(10_000)))
    }

    @Test func `a push whose turn comes too late is not sent`() {
        var push = attempt(deadline: 10_000)
        #expect(push.turnCame(now: at(10_000)) == .finish(.retry(after: nil)))
    }

    @Test func `an outdated credential is renewed once, at the cost of no try`() {
        var push = attempt()
        _ = push.turnCame(now: at(0))
        #expect(push.answered(.renewCredential, chance: 0.5, now: at(10)) == .renewCredentialAndEnqueue)
        #expect(push.turnCame(now: at(20)) == .send(until: at(5_020)))
        #expect(push.tries == 1)
        guard case .finish(.credentialsRefused) = push.answered(.renewCredential, chance: 0.5, now: at(30)) else {
            return #expect(Bool(false))
        }
    }

    @Test func `a missing credential counts as a try`() {
        var push = attempt()
        var now = 0
        for pause in [300, 1_000, 3_000, 5_000, 5_000, 5_000, 5_000] {
            #expect(push.answered(.retry(after: nil), chance: 0.5, now: at(now)) == .arm(at(now + pause)))
            now += pause
            #expect(push.deadlineReached(now: at(now)) == .enqueue)
        }
        #expect(push.tries == 7)
    }

    @Test(arguments: [
        PushOutcome.tokenDead(since: nil), .credentialsRefused("x"), .payloadRefused("x"), .noSuitableToken,
        .acceptedWithNewToken(.empty),
    ])
    func `a final outcome ends it`(outcome: PushOutcome) {
        var push = attempt()
        _ = push.turnCame(now: at(0))
        #expect(push.answered(outcome, chance: 0.5, now: at(1)) == .finish(outcome))
    }

    @Test func `a cancelled push reports nothing more`() {
        var waiting = attempt()
        #expect(waiting.cancelled() == true)
        #expect(waiting.turnCame(now: at(0)) == .none)
        var pausing = attempt()
        _ = pausing.turnCame(now: at(0))
        _ = pausing.answered(.retry(after: nil), chance: 0.5, now: at(0))
        #expect(pausing.cancelled() == true)
        #expect(pausing.deadlineReached(now: at(300)) == .none)
        #expect(pausing.answered(.accepted(nil), chance: 0.5, now: at(300)) == .none)
    }

    @Test(arguments: [PushOutcome.accepted(nil), .retry(after: nil), .renewCredential, .tokenDead(since: nil)])
    func `an attempt in flight is waited for, and is the last one`(outcome: PushOutcome) {
        var push = attempt()
        _ = push.turnCame(now: at(0))
        #expect(push.cancelled() == false)
        #expect(push.isLast)
        #expect(push.answered(outcome, chance: 0.5, now: at(80)) == .finish(outcome))
        #expect(push.answered(outcome, chance: 0.5, now: at(90)) == .none)
    }
}
