package import Timekeeping

/// So many events a minute for each key, all of them at once if need be (the generic cell rate algorithm).
///
/// Pure. Keeps one instant for each key that was busy within the last minute, and of too many keys the busiest.
package struct RateLimit<Key: Hashable & Sendable>: Sendable {
    /// Events a minute; 0 lets everything pass.
    package var perMinute: Int
    /// When each key's debt is paid off.
    private var paidOff: [Key: Instant] = [:]
    /// Keys that make a sweep worthwhile.
    private var sweepAt: Int

    private let capacity: Int

    private static var smallestSweep: Int { 1024 }

    /// - Parameters:
    ///   - perMinute: events a minute for each key.
    ///   - capacity: keys that are remembered at most; beyond it those with the least debt are forgotten.
    package init(perMinute: Int, capacity: Int = .max) {
        self.perMinute = perMinute
        self.capacity = max(capacity, 1)
        sweepAt = min(self.capacity, Self.smallestSweep)
    }

    /// Keys that are remembered.
    package var count: Int { paidOff.count }

    /// Whether one more event of the key is within the limit; if so, it counts.
    package mutating func admit(_ key: Key, now: Instant) -> Bool {
        guard perMinute > 0 else { return true }
        let cost = Duration.seconds(60) / perMinute
        let debt = max(paidOff[key] ?? now, now)
        guard debt + cost - now <= .seconds(60) else { return false }
        paidOff[key] = debt + cost
        if paidOff.count >= sweepAt { sweep(now: now) }
        return true
    }

    /// How long until one more event of the key is within the limit; `nil`: it is now. Counts nothing.
    package func wait(for key: Key, now: Instant) -> Duration? {
        guard perMinute > 0, let debt = paidOff[key] else { return nil }
        let excess = debt + Duration.seconds(60) / perMinute - now - .seconds(60)
        return excess > .zero ? excess : nil
    }

    private mutating func sweep(now: Instant) {
        paidOff = paidOff.filter { $0.value > now }
        if paidOff.count >= capacity {
            // Half of them at once, so that a flood of keys does not pay for a sweep each time.
            let debts = paidOff.values.sorted()
            let least = debts[debts.count / 2]
            paidOff = paidOff.filter { $0.value > least }
        }
        // Twice what is left: each sweep is paid for by as many events.
        sweepAt = min(capacity, max(Self.smallestSweep, paidOff.count * 2))
    }
}
