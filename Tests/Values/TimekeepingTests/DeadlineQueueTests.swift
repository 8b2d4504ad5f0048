import TestSupport
import Testing

@testable import Timekeeping

@Suite("Deadline queue")
struct DeadlineQueueTests {
    private let start = Instant(nanoseconds: 7_777_777_777_777)

    private func drained(_ queue: inout DeadlineQueue<Int>, now: Instant) -> [Int] {
        var popped: [Int] = []
        while let payload = queue.popExpired(now: now) { popped.append(payload) }
        return popped
    }

    @Test func `no element comes early, not even by part of a tick`() {
        var queue = DeadlineQueue<Int>()
        let deadline = start + .milliseconds(3)
        _ = queue.schedule(1, at: deadline)
        #expect(drained(&queue, now: deadline + .nanoseconds(-1)).isEmpty)
        #expect(drained(&queue, now: deadline + .milliseconds(10)) == [1])
        #expect(queue.nextDeadline == nil)
    }

    @Test func `the next deadline is exact to a tick as long as nothing was cancelled`() throws {
        for distance: Duration in [.milliseconds(10), .seconds(1), .seconds(3600), .seconds(86_400 * 400)] {
            var queue = DeadlineQueue<Int>()
            _ = queue.popExpired(now: start)
            _ = queue.schedule(2, at: start + distance + .seconds(5))
            _ = queue.schedule(1, at: start + distance)
            let next = try #require(queue.nextDeadline)
            #expect(next >= start + distance && next < start + distance + .milliseconds(10))
            #expect(drained(&queue, now: next) == [1])
        }
    }

    @Test func `equal deadlines come in the order in which they were scheduled, from any level`() {
        var queue = DeadlineQueue<Int>()
        let deadline = start + .seconds(100)
        _ = queue.popExpired(now: start)
        _ = queue.schedule(1, at: deadline)
        _ = queue.popExpired(now: start + .seconds(99))
        _ = queue.schedule(2, at: deadline)
        _ = queue.popExpired(now: deadline + .milliseconds(-20))
        _ = queue.schedule(3, at: deadline)
        #expect(drained(&queue, now: deadline + .milliseconds(10)) == [1, 2, 3])
    }

    @Test func `a deadline in the past comes at once`() {
        var queue = DeadlineQueue<Int>()
        _ = queue.popExpired(now: start)
        _ = queue.schedule(1, at: .distantPast)
        #expect(queue.popExpired(now: start) == 1)
    }

    @Test func `the distant future never comes`() {
        var queue = DeadlineQueue<Int>()
        let id = queue.schedule(1, at: .distantFuture)
        #expect(queue.popExpired(now: .distantFuture) == nil)
        #expect(queue.nextDeadline == .distantFuture)
        queue.cancel(id)
        #expect(queue.count == 0)
    }

    @Test func `cancelling twice, after the end, or an unknown element has no effect`() {
        var queue = DeadlineQueue<Int>()
        let first = queue.schedule(1, at: start)
        queue.cancel(first)
        queue.cancel(first)
        let second = queue.schedule(2, at: start)  // The new entry gets the slot of the first entry.
        queue.cancel(first)
        queue.cancel(.none)
        #expect(queue.count == 1)
        #expect(drained(&queue, now: start + .seconds(1)) == [2])
        queue.cancel(second)
        #expect(queue.count == 0)
    }

    @Test func `a payload is let go when its deadline is cancelled`() {
        final class Token {}
        var queue = DeadlineQueue<Token>()
        weak var seen: Token?
        var id = DeadlineID.none
        do {
            let token = Token()
            seen = token
            id = queue.schedule(token, at: start)
        }
        #expect(seen != nil)
        queue.cancel(id)
        #expect(seen == nil)
    }

    @Test func `a timer is small`() {
        #expect(MemoryLayout<DeadlineQueue<UInt32>.Node>.stride <= 32)
    }

    /// Compares the queue with a plain list, which must return the same payloads and the same times of the next check.
    @Test(arguments: UInt64(1)...40)
    func `agrees with a sorted list`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = DeadlineQueue<Int>()
        var model: [Int: (due: Int64, id: DeadlineID)] = [:]
        var now = Instant(nanoseconds: Int64(truncatingIfNeeded: random.next() >> 8) * (seed % 2 == 0 ? 1 : -1))
        let tick: Int64 = 10_000_000
        for serial in 0..<3000 {
            switch random.next() % 10 {
            case 0...4:
                let exponent = random.next() % 45
                let distance = Int64(truncatingIfNeeded: random.next() % (1 << exponent)) - 20_000_000
                let deadline = Instant(nanoseconds: now.nanoseconds + distance)
                model[serial] = (deadline.nanoseconds, queue.schedule(serial, at: deadline))
            case 5...7:
                guard let victim = model.keys.sorted().randomElement(using: &random), let entry = model[victim] else {
                    continue
                }
                queue.cancel(entry.id)
                model[victim] = nil
            default:
                let exponent = random.next() % 42
                now = Instant(nanoseconds: now.nanoseconds + Int64(truncatingIfNeeded: random.next() % (1 << exponent)))
                var popped: [Int] = []
                while let payload = queue.popExpired(now: now) { popped.append(payload) }
                for payload in popped {
                    guard let entry = model.removeValue(forKey: payload) else {
                        Issue.record("came twice or after it was cancelled")
                        continue
                    }
                    #expect(entry.due <= now.nanoseconds, "early")
                }
                #expect(!model.values.contains { $0.due + tick <= now.nanoseconds }, "late")
            }
            #expect(queue.count == model.count)
            if let earliest = model.values.map(\.due).min() {
                #expect(queue.nextDeadline.map { $0.nanoseconds < max(earliest, now.nanoseconds) + tick } == true)
            } else {
                #expect(queue.nextDeadline == nil)
            }
        }
    }

    @Test(arguments: UInt64(1)...10)
    func `comes out sorted by tick`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = DeadlineQueue<Int>()
        var dues: [Int64] = []
        _ = queue.popExpired(now: start)
        for serial in 0..<500 {
            let distance = Int64(truncatingIfNeeded: random.next() % (1 << (10 + random.next() % 40)))
            dues.append((start.nanoseconds + distance + 9_999_999) / 10_000_000)
            _ = queue.schedule(serial, at: Instant(nanoseconds: start.nanoseconds + distance))
        }
        let popped = drained(&queue, now: start + .seconds(86_400 * 30))
        #expect(popped == dues.indices.sorted { (dues[$0], $0) < (dues[$1], $1) })
    }
}
