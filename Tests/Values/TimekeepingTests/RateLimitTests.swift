import Testing
import Timekeeping

/// A class that wraps the rate limit, so that `#expect` can call its methods.
private final class Gate {
    var limit: RateLimit<Int>
    private let start = Instant(nanoseconds: 1_000_000_000)

    init(perMinute: Int, capacity: Int = .max) { limit = RateLimit(perMinute: perMinute, capacity: capacity) }

    func wait(_ key: Int, after time: Duration = .zero) -> Duration? { limit.wait(for: key, now: start + time) }

    func admits(_ key: Int, after time: Duration = .zero) -> Bool { limit.admit(key, now: start + time) }

    func hasRoom(_ key: Int, after time: Duration = .zero) -> Bool { wait(key, after: time) == nil }
}

@Suite struct `Limits of events a minute` {
    @Test func `asking whether there is room counts nothing`() {
        let gate = Gate(perMinute: 2)
        for _ in 1...5 { #expect(gate.hasRoom(1)) }
        #expect(gate.admits(1))
        #expect(gate.hasRoom(1))
        #expect(gate.admits(1))
        #expect(!gate.hasRoom(1))
        #expect(gate.hasRoom(2))
        #expect(gate.hasRoom(1, after: .seconds(30)))
        #expect(Gate(perMinute: 0).hasRoom(1))
    }

    @Test func `lets the whole minute's share pass at once, then one each interval`() {
        let gate = Gate(perMinute: 20)
        for _ in 0..<20 { #expect(gate.admits(1)) }
        #expect(!gate.admits(1))
        #expect(!gate.admits(1, after: .milliseconds(2_999)))
        #expect(gate.admits(1, after: .seconds(3)))
        #expect(!gate.admits(1, after: .seconds(3)))
    }

    @Test func `counts each key by itself`() {
        let gate = Gate(perMinute: 1)
        #expect(gate.admits(1))
        #expect(!gate.admits(1))
        #expect(gate.admits(2))
    }

    @Test func `never admits more than the share and its burst`() {
        let gate = Gate(perMinute: 20)
        var admitted = 0
        for step in 0..<6_000 where gate.admits(7, after: .milliseconds(100 * step)) { admitted += 1 }
        // The expected number is the number of events that the limit allows in ten minutes, plus the burst at the
        // beginning.
        #expect(admitted == 220 - 1)
    }

    @Test func `forgets keys that are quiet`() {
        let gate = Gate(perMinute: 20)
        for key in 0..<10_000 { _ = gate.admits(key, after: .seconds(key)) }
        #expect(gate.limit.count < 2_048)
    }

    @Test func `zero is no limit`() {
        let gate = Gate(perMinute: 0)
        for _ in 0..<1_000 { #expect(gate.admits(1)) }
        #expect(gate.limit.count == 0)
    }

    @Test func `returns the time until one more is admitted`() {
        let gate = Gate(perMinute: 20)
        #expect(gate.wait(1) == nil)
        for _ in 0..<20 { _ = gate.admits(1) }
        #expect(gate.wait(1) == .seconds(3))
        #expect(gate.wait(1, after: .milliseconds(2_999)) == .milliseconds(1))
        #expect(gate.wait(1, after: .seconds(3)) == nil)
        // A read of the remaining waiting time does not count as an event of the rate limit.
        #expect(gate.admits(1, after: .seconds(3)))
        #expect(gate.wait(2) == nil)
        #expect(Gate(perMinute: 0).wait(1) == nil)
    }

    @Test func `of too many keys the busiest are remembered`() {
        let gate = Gate(perMinute: 20, capacity: 2_000)
        for _ in 0..<20 { _ = gate.admits(-1) }
        for key in 0..<100_000 {
            #expect(gate.admits(key))
            #expect(gate.limit.count <= 2_000)
        }
        #expect(!gate.admits(-1))
    }
}
