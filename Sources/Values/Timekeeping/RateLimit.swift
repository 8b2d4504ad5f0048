/// Limits the events of each key to so many in a span of time, which may all come at once (the generic cell rate algorithm).
///
/// It keeps one instant for each key that was busy within the last span. If there are too many keys, it keeps the
/// busiest.
@usableFromInline
package struct RateLimit<Key: Hashable & Sendable>: Sendable {
    /// How many events each key may have in a span; 0 lets everything pass.
    @usableFromInline package var limit: Int { didSet { cost = Self.cost(of: limit, in: span) } }
    @usableFromInline let span: Duration
    /// The time that one event stands for. A division of durations takes a hundred steps.
    @usableFromInline var cost: Duration
    /// When the events of each key stop counting.
    @usableFromInline var paidOff: [Key: Instant] = [:]
    /// How many keys make a sweep worthwhile.
    @usableFromInline var sweepAt: Int

    private let capacity: Int

    private static var smallestSweep: Int { 1024 }

    package init(perMinute: Int, capacity: Int = .max) {
        self.init(perMinute, in: .seconds(60), capacity: capacity)
    }

    /// - Parameters:
    ///   - limit: how many events each key may have in a span.
    ///   - span: how long that is.
    ///   - capacity: how many keys are remembered at most. Beyond it, those with the fewest events are forgotten.
    package init(_ limit: Int, in span: Duration, capacity: Int = .max) {
        self.limit = limit
        self.span = span
        cost = Self.cost(of: limit, in: span)
        self.capacity = max(capacity, 1)
        sweepAt = min(self.capacity, Self.smallestSweep)
    }

    /// How many keys are remembered.
    package var count: Int { paidOff.count }

    /// Whether one more event of the key is within the limit. If it is, it counts.
    @inlinable
    package mutating func admit(_ key: Key, now: Instant) -> Bool {
        guard limit > 0 else { return true }
        let debt = max(paidOff[key] ?? now, now)
        guard debt + cost - now <= span else { return false }
        paidOff[key] = debt + cost
        if paidOff.count >= sweepAt { sweep(now: now) }
        return true
    }

    /// How long it takes until one more event of the key is within the limit; `nil` if it is so now. Counts no event.
    @inlinable
    package func wait(for key: Key, now: Instant) -> Duration? {
        guard limit > 0, let debt = paidOff[key] else { return nil }
        let excess = debt + cost - now - span
        return excess > .zero ? excess : nil
    }

    /// One event of the key does not count after all.
    package mutating func giveBack(_ key: Key, now: Instant) {
        guard let debt = paidOff[key] else { return }
        paidOff[key] = debt + (.zero - cost) > now ? debt + (.zero - cost) : nil
    }

    private static func cost(of limit: Int, in span: Duration) -> Duration { limit > 0 ? span / limit : .zero }

    @usableFromInline
    mutating func sweep(now: Instant) {
        paidOff = paidOff.filter { $0.value > now }
        if paidOff.count >= capacity {
            // Half of the keys go at once, so that in a flood of keys not every one causes a sweep.
            let debts = paidOff.values.sorted()
            let least = debts[debts.count / 2]
            paidOff = paidOff.filter { $0.value > least }
        }
        // The next sweep comes when the keys have doubled, so that sweeps stay rare.
        sweepAt = min(capacity, max(Self.smallestSweep, paidOff.count * 2))
    }
}
