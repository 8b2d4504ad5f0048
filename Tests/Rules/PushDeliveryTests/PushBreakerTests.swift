import PushDelivery
import Testing
import Timekeeping

private let start = Instant(nanoseconds: 0)

private func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

@Suite("The circuit breaker of a push server")
struct PushBreakerTests {
    /// A breaker after a number of failures, which are a tenth of a second apart. The last failure is at `start`.
    private func breaker(afterFailures count: Int) -> PushBreaker {
        var breaker = PushBreaker()
        for number in 1...count { breaker.requestEnded(.failed, now: start + .milliseconds(100 * (number - count))) }
        return breaker
    }

    @Test(arguments: [(4, false), (5, true)])
    func `the fifth failure in a row opens it`(failures: Int, isOpen: Bool) {
        let breaker = breaker(afterFailures: failures)
        #expect(breaker.isOpen == isOpen)
        #expect(breaker.permitsPush(now: at(4)) != isOpen)
    }

    @Test func `an open breaker permits one probe after the pause`() {
        var breaker = breaker(afterFailures: 5)
        #expect(breaker.permitsPush(now: at(5)))
        breaker.pushBegan()
        #expect(breaker.state == .probing && breaker.isOpen)
        #expect(!breaker.permitsPush(now: at(60)))
    }

    @Test(
        arguments: [
            (.answered, .closed(failuresInARow: 0)), (.failed, .open(until: at(11))),
            (.failedAgain, .open(until: at(11))), (.unknown, .open(until: at(6))),
        ] as [(PushBreaker.Health, PushBreaker.State)])
    func `the probe decides`(health: PushBreaker.Health, state: PushBreaker.State) {
        var breaker = breaker(afterFailures: 5)
        breaker.pushBegan()
        breaker.requestEnded(health, now: at(6))
        #expect(breaker.state == state)
    }

    @Test func `failures that are not in a row, or of one push only, do not open it`() {
        var breaker = PushBreaker()
        for number in 1...20 {
            breaker.requestEnded(number % 4 == 0 ? .answered : .failed, now: start + .milliseconds(100 * number))
        }
        for _ in 1...20 { breaker.requestEnded(.failedAgain, now: at(3)) }
        #expect(breaker.state == .closed(failuresInARow: 0))
    }

    @Test func `the failures of one broken connection count as one`() {
        var breaker = PushBreaker()
        for _ in 1...100 { breaker.requestEnded(.failed, now: at(0)) }
        #expect(breaker.state == .closed(failuresInARow: 1, since: at(0)))
    }

    @Test func `an answer to a push from before the opening closes it`() {
        var breaker = breaker(afterFailures: 5)
        breaker.requestEnded(.answered, now: at(1))
        #expect(breaker.state == .closed(failuresInARow: 0))
    }
}
