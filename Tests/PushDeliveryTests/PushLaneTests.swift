import PushDelivery
import Testing
import Timekeeping

private let start = Instant(nanoseconds: 0)

private func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

/// A tenth of a second after each other, the fifth at the start.
private func failure(_ number: Int) -> Instant { start + .milliseconds(100 * (number - 5)) }

private func push(_ number: Int) -> PushID { PushID(rawValue: UInt64(number)) }

private func lane(requests: Int = 2, queue: Int = 3) -> PushLane {
    var settings = LaneSettings()
    settings.requests = requests
    settings.queue = queue
    return PushLane(settings)
}

@Suite("The lane to one provider")
struct PushLaneTests {
    @Test func `so many requests are under way, so many wait, the rest is refused`() {
        var lane = lane()
        let admissions = (1...6).map { lane.arrived(push($0), now: at(0)) }
        #expect(admissions == [.start, .start, .wait, .wait, .wait, .refuse])
        #expect(lane.inFlight == 2)
        #expect(lane.queued == 3)
    }

    @Test func `who waits goes in order when another has left`() {
        var lane = lane()
        for number in 1...5 { _ = lane.arrived(push(number), now: at(0)) }
        #expect(lane.next(now: at(0)) == nil)
        lane.left(.answered, now: at(0))
        #expect(lane.next(now: at(0)) == push(3))
        #expect(lane.next(now: at(0)) == nil)
        lane.left(.answered, now: at(0))
        lane.left(.answered, now: at(0))
        #expect(lane.next(now: at(0)) == push(4))
        #expect(lane.next(now: at(0)) == push(5))
        #expect(lane.next(now: at(0)) == nil)
        #expect(lane.queued == 0)
    }

    @Test func `nobody overtakes those who wait`() {
        var lane = lane(requests: 1)
        _ = lane.arrived(push(1), now: at(0))
        _ = lane.arrived(push(2), now: at(0))
        lane.left(.answered, now: at(0))
        #expect(lane.arrived(push(3), now: at(0)) == .wait)
        #expect(lane.next(now: at(0)) == push(2))
    }

    @Test func `five failures in a row close it, and a probe every five seconds opens it again`() {
        var lane = lane(requests: 10, queue: 10)
        for number in 1...5 {
            #expect(lane.arrived(push(number), now: at(0)) == .start)
            lane.left(.failed, now: failure(number))
        }
        #expect(lane.state == .closed(until: at(5)))
        #expect(lane.nextProbe == nil)
        #expect(lane.arrived(push(6), now: at(1)) == .wait)
        #expect(lane.arrived(push(7), now: at(1)) == .wait)
        #expect(lane.next(now: at(4)) == nil)
        #expect(lane.nextProbe == at(5))
        #expect(lane.next(now: at(5)) == push(6))
        #expect(lane.next(now: at(5)) == nil)
        lane.left(.failed, now: at(6))
        #expect(lane.state == .closed(until: at(11)))
        #expect(lane.next(now: at(11)) == push(7))
        #expect(lane.arrived(push(8), now: at(11)) == .wait)
        lane.left(.answered, now: at(12))
        #expect(lane.state == .open(failuresInARow: 0))
        #expect(lane.next(now: at(12)) == push(8))
    }

    @Test func `a closed lane whose time is over takes the next push as its probe`() {
        var lane = lane(requests: 10)
        for number in 1...5 {
            _ = lane.arrived(push(number), now: at(0))
            lane.left(.failed, now: failure(number))
        }
        #expect(lane.arrived(push(6), now: at(5)) == .start)
        #expect(lane.state == .probing)
    }

    @Test func `failures that are not in a row, or of one push only, do not close it`() {
        var lane = lane(requests: 10)
        for number in 1...20 {
            _ = lane.arrived(push(number), now: at(0))
            lane.left(number % 4 == 0 ? .answered : .failed, now: failure(number))
        }
        for _ in 1...20 {
            _ = lane.arrived(push(21), now: at(0))
            lane.left(.failedAgain, now: at(0))
        }
        #expect(lane.state == .open(failuresInARow: 0))
    }

    @Test func `what one broken connection takes with it is one failure`() {
        var lane = lane(requests: 100)
        for number in 1...100 { _ = lane.arrived(push(number), now: at(0)) }
        for _ in 1...100 { lane.left(.failed, now: at(0)) }
        #expect(lane.state == .open(failuresInARow: 1, since: at(0)))
    }

    @Test func `an answer that comes after the lane has closed opens it`() {
        var lane = lane(requests: 10)
        for number in 1...6 { _ = lane.arrived(push(number), now: at(0)) }
        for number in 1...5 { lane.left(.failed, now: failure(number)) }
        lane.left(.answered, now: at(1))
        #expect(lane.state == .open(failuresInARow: 0))
    }

    @Test func `a probe that is taken back lets the next one probe`() {
        var lane = lane(requests: 10, queue: 10)
        for number in 1...5 {
            _ = lane.arrived(push(number), now: at(0))
            lane.left(.failed, now: failure(number))
        }
        _ = lane.arrived(push(6), now: at(1))
        _ = lane.arrived(push(7), now: at(1))
        #expect(lane.next(now: at(5)) == push(6))
        lane.left(.unknown, now: at(6))
        #expect(lane.next(now: at(6)) == push(7))
    }

    @Test func `a long queue gives its memory's front back`() {
        var lane = lane(requests: 1, queue: 10_000)
        for number in 0...10_000 { _ = lane.arrived(push(number), now: at(0)) }
        for number in 1...10_000 {
            lane.left(.answered, now: at(0))
            #expect(lane.next(now: at(0)) == push(number))
        }
        #expect(lane.queued == 0)
        #expect(lane.inFlight == 1)
    }
}
