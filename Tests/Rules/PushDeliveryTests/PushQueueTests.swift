import PushDelivery
import Testing
import Timekeeping

private let start = Instant(nanoseconds: 0)

private func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

/// Returns the instant of the failure with the given number. The failures are a tenth of a second apart, and failure 5
/// is at `start`.
private func failure(_ number: Int) -> Instant { start + .milliseconds(100 * (number - 5)) }

private func push(_ number: Int) -> PushID { PushID(rawValue: UInt64(number)) }

private func makeQueue(requests: Int = 2, queue: Int = 3) -> PushQueue {
    var settings = ProviderLimits()
    settings.requests = requests
    settings.queue = queue
    return PushQueue(settings)
}

@Suite("The queue before one server of a provider")
struct PushQueueTests {
    @Test func `a limited number is in flight, a limited number waits, and the rest is refused`() {
        var queue = makeQueue()
        let admissions = (1...6).map { queue.arrived(push($0), now: at(0)) }
        #expect(admissions == [.start, .start, .wait, .wait, .wait, .refuse])
        #expect(queue.inFlight == 2)
        #expect(queue.queued == 3)
    }

    @Test func `waiting pushes leave in order when there is room`() {
        var queue = makeQueue()
        for number in 1...5 { _ = queue.arrived(push(number), now: at(0)) }
        #expect(queue.next(now: at(0)) == nil)
        queue.left(.answered, now: at(0))
        #expect(queue.next(now: at(0)) == push(3))
        #expect(queue.next(now: at(0)) == nil)
        queue.left(.answered, now: at(0))
        queue.left(.answered, now: at(0))
        #expect(queue.next(now: at(0)) == push(4))
        #expect(queue.next(now: at(0)) == push(5))
        #expect(queue.next(now: at(0)) == nil)
        #expect(queue.queued == 0)
    }

    @Test func `the order of waiting pushes is kept`() {
        var queue = makeQueue(requests: 1)
        _ = queue.arrived(push(1), now: at(0))
        _ = queue.arrived(push(2), now: at(0))
        queue.left(.answered, now: at(0))
        #expect(queue.arrived(push(3), now: at(0)) == .wait)
        #expect(queue.next(now: at(0)) == push(2))
    }

    @Test func `while the breaker is open, pushes wait, and a probe is sent every five seconds`() {
        var queue = makeQueue(requests: 10, queue: 10)
        for number in 1...5 {
            #expect(queue.arrived(push(number), now: at(0)) == .start)
            queue.left(.failed, now: failure(number))
        }
        #expect(queue.breaker.state == .open(until: at(5)))
        #expect(queue.nextProbe == nil)
        #expect(queue.arrived(push(6), now: at(1)) == .wait)
        #expect(queue.arrived(push(7), now: at(1)) == .wait)
        #expect(queue.next(now: at(4)) == nil)
        #expect(queue.nextProbe == at(5))
        #expect(queue.next(now: at(5)) == push(6))
        #expect(queue.next(now: at(5)) == nil)
        queue.left(.failed, now: at(6))
        #expect(queue.breaker.state == .open(until: at(11)))
        #expect(queue.next(now: at(11)) == push(7))
        #expect(queue.arrived(push(8), now: at(11)) == .wait)
        queue.left(.answered, now: at(12))
        #expect(queue.breaker.state == .closed(failuresInARow: 0))
        #expect(queue.next(now: at(12)) == push(8))
    }

    @Test func `after the breaker's pause, the next push is the probe`() {
        var queue = makeQueue(requests: 10)
        for number in 1...5 {
            _ = queue.arrived(push(number), now: at(0))
            queue.left(.failed, now: failure(number))
        }
        #expect(queue.arrived(push(6), now: at(5)) == .start)
        #expect(queue.breaker.state == .probing)
    }

    @Test func `the end of a withdrawn probe lets the next one probe`() {
        var queue = makeQueue(requests: 10, queue: 10)
        for number in 1...5 {
            _ = queue.arrived(push(number), now: at(0))
            queue.left(.failed, now: failure(number))
        }
        _ = queue.arrived(push(6), now: at(1))
        _ = queue.arrived(push(7), now: at(1))
        #expect(queue.next(now: at(5)) == push(6))
        queue.left(.unknown, now: at(6))
        #expect(queue.next(now: at(6)) == push(7))
    }

    @Test func `a long queue releases the front of its memory`() {
        var queue = makeQueue(requests: 1, queue: 10_000)
        for number in 0...10_000 { _ = queue.arrived(push(number), now: at(0)) }
        for number in 1...10_000 {
            queue.left(.answered, now: at(0))
            #expect(queue.next(now: at(0)) == push(number))
        }
        #expect(queue.queued == 0)
        #expect(queue.inFlight == 1)
    }
}
