import Testing
import Timekeeping

private let start = Instant(nanoseconds: 100_000_000_000)

@Suite struct `Counts of other nodes in a limit` {
    @Test func `events of another node use up the limit as own events do`() {
        var limit = RateLimit<Int>(perMinute: 10)
        for _ in 0..<5 { _ = limit.admit(1, now: start) }
        limit.add(4, of: 1, age: .zero, now: start)
        let isTenthAdmitted = limit.admit(1, now: start)
        let isEleventhAdmitted = limit.admit(1, now: start)
        #expect(isTenthAdmitted && !isEleventhAdmitted)
        let isOtherAdmitted = limit.admit(2, now: start)
        #expect(isOtherAdmitted)
    }

    @Test func `an excess of all nodes together is paid off before the next event`() {
        var limit = RateLimit<Int>(perMinute: 10)
        for _ in 0..<10 { _ = limit.admit(1, now: start) }
        limit.add(10, of: 1, age: .zero, now: start)
        #expect(limit.wait(for: 1, now: start) == .seconds(66))
    }

    @Test func `old events count for the rest of their time, and events of an earlier span do not count`() {
        var limit = RateLimit<Int>(perMinute: 10)
        limit.add(10, of: 1, age: .seconds(30), now: start)
        #expect(limit.load(of: 1, now: start) == .seconds(30))
        limit.add(3, of: 2, age: .seconds(30), now: start)
        limit.add(10, of: 3, age: .seconds(3600), now: start)
        #expect(limit.count == 1)
    }

    @Test func `a huge count of another node blocks a key for some spans only`() {
        var limit = RateLimit<Int>(perMinute: 10)
        for _ in 0..<100 { limit.add(.max, of: 1, age: .seconds(-5), now: start) }
        #expect(limit.load(of: 1, now: start) == .seconds(480))
        var off = RateLimit<Int>(perMinute: 0)
        off.add(5, of: 1, age: .zero, now: start)
        #expect(off.count == 0)
    }
}

@Suite struct `Counts that other nodes do not know` {
    @Test func `the events of a key are told once, with their number and age`() {
        var untold = UntoldCounts()
        for _ in 0..<3 {
            untold.counted(.wrongLoginsOfSource, 7, load: .seconds(6), now: start)
        }
        untold.counted(.wrongLoginsOfUser, 7, load: .seconds(2), now: start + .milliseconds(200))
        let told = untold.take(now: start + .seconds(1))
        #expect(told.dropped == 0)
        #expect(
            Set(told.counts) == [
                SharedCount(.wrongLoginsOfSource, 7, count: 3, age: .seconds(1)),
                SharedCount(.wrongLoginsOfUser, 7, count: 1, age: .milliseconds(800)),
            ])
        let again = untold.take(now: start + .seconds(2))
        #expect(again.counts.isEmpty && untold.isEmpty)
    }

    @Test func `keys close to their limits go first, and all others follow`() {
        var untold = UntoldCounts()
        for key in 0..<UInt64(600) {
            untold.counted(.wrongLoginsOfSource, key, load: .milliseconds(Int64(key)), now: start)
        }
        let first = untold.take(now: start)
        #expect(first.counts.count == UntoldCounts.most && first.counts.allSatisfy { $0.key >= 344 })
        let (second, third) = (untold.take(now: start), untold.take(now: start))
        #expect(first.counts.count + second.counts.count + third.counts.count == 600)
        #expect(Set((first.counts + second.counts + third.counts).map(\.key)).count == 600)
    }

    @Test func `many sources neither fill the memory nor hide a source that guesses often`() {
        var untold = UntoldCounts()
        var limit = RateLimit<UInt64>(perMinute: 10, capacity: 65_536)
        func fail(_ key: UInt64) {
            guard limit.admit(key, now: start) else { return }
            untold.counted(.wrongLoginsOfSource, key, load: limit.load(of: key, now: start), now: start)
        }
        var most = 0
        for key in 1...UInt64(50_000) {
            fail(key)
            // The true attacker guesses five times in the flood.
            if key % 10_000 == 0 { fail(0) }
            most = max(most, untold.count)
        }
        #expect(most <= UntoldCounts.capacity + 1)
        let told = untold.take(now: start)
        #expect(told.dropped > 40_000)
        #expect(told.counts.count <= UntoldCounts.most)
        // The first event of the attacker may be lost, because its source was then one of many.
        let attacker = told.counts.first { $0.key == 0 }
        #expect((attacker?.count ?? 0) >= 4)
    }

    @Test func `events that waited longer than a minute are not told`() {
        var untold = UntoldCounts()
        untold.counted(.pushesToDevice, 1, load: .seconds(3), now: start)
        let told = untold.take(now: start + .seconds(60))
        #expect(told.counts.isEmpty && untold.isEmpty)
    }
}
