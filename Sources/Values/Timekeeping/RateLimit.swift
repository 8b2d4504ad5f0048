/// Limits how many events each key may have in a span of time. All events that the limit allows in a span may happen at
/// the same moment (generic cell rate algorithm).
///
/// For each key with events within the last span, one instant is stored. If there are too many keys, only the keys with
/// the most events are kept.
@usableFromInline
package struct RateLimit<Key: Hashable & Sendable>: Sendable {
    /// The maximum number of events of each key in a span; 0 for no limit.
    @usableFromInline package var limit: Int { didSet { cost = Self.cost(of: limit, in: span) } }
    @usableFromInline let span: Duration
    /// The span divided by the limit, stored because dividing durations is slow.
    @usableFromInline var cost: Duration
    /// For each key, the moment from which none of its events counts any more.
    @usableFromInline var paidOff: [Key: Instant] = [:]
    /// The number of keys at which keys without recent events are removed.
    @usableFromInline var sweepAt: Int

    private let capacity: Int

    private static var smallestSweep: Int { 1024 }

    package init(perMinute: Int, capacity: Int = .max) {
        self.init(perMinute, in: .seconds(60), capacity: capacity)
    }

    /// Makes a rate limit.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of events of each key in a span; 0 for no limit.
    ///   - span: the length of the time in which events are counted.
    ///   - capacity: the maximum number of keys, above which keys with the fewest events are dropped.
    package init(_ limit: Int, in span: Duration, capacity: Int = .max) {
        self.limit = limit
        self.span = span
        cost = Self.cost(of: limit, in: span)
        self.capacity = max(capacity, 1)
        sweepAt = min(self.capacity, Self.smallestSweep)
    }

    /// The number of keys whose events the rate limit counts.
    package var count: Int { paidOff.count }

    /// Whether the limit allows one more event of the key, which is then counted.
    @inlinable
    package mutating func admit(_ key: Key, now: Instant) -> Bool {
        guard limit > 0 else { return true }
        let debt = max(paidOff[key] ?? now, now)
        guard debt + cost - now <= span else { return false }
        paidOff[key] = debt + cost
        if paidOff.count >= sweepAt { sweep(now: now) }
        return true
    }

    /// How long the key must wait until the limit allows one more event; `nil` if the limit allows the event now.
    /// ``wait(for:now:)`` counts no event.
    @inlinable
    package func wait(for key: Key, now: Instant) -> Duration? {
        guard limit > 0, let debt = paidOff[key] else { return nil }
        let excess = debt + cost - now - span
        return excess > .zero ? excess : nil
    }

    /// Takes back one counted event of the key.
    package mutating func giveBack(_ key: Key, now: Instant) {
        guard let debt = paidOff[key] else { return }
        paidOff[key] = debt + (.zero - cost) > now ? debt + (.zero - cost) : nil
    }

    /// How long events of the key count from now on.
    package func load(of key: Key, now: Instant) -> Duration {
        guard let debt = paidOff[key], debt > now else { return .zero }
        return debt - now
    }

    /// Counts events that another node has admitted, even above the limit. The key must then wait until the excess is
    /// over, but not longer than some spans.
    package mutating func add(_ count: Int, of key: Key, age: Duration, now: Instant) {
        guard limit > 0, count > 0 else { return }
        let start = now + (.zero - min(max(age, .zero), span))
        let debt = max(paidOff[key] ?? start, start) + cost * min(count, limit)
        guard debt > now else { return }
        paidOff[key] = min(debt, now + span * Self.mostSpans)
        if paidOff.count >= sweepAt { sweep(now: now) }
    }

    /// The maximum number of spans for which a key must wait after events of other nodes.
    private static var mostSpans: Int { 8 }

    private static func cost(of limit: Int, in span: Duration) -> Duration { limit > 0 ? span / limit : .zero }

    @usableFromInline
    mutating func sweep(now: Instant) {
        paidOff = paidOff.filter { $0.value > now }
        if paidOff.count >= capacity {
            // The sweep drops half of the keys. If it dropped only a few, each new key in a flood would start another
            // sweep.
            let debts = paidOff.values.sorted()
            let least = debts[debts.count / 2]
            paidOff = paidOff.filter { $0.value > least }
        }
        // The next sweep comes when the number of keys has doubled.
        sweepAt = min(capacity, max(Self.smallestSweep, paidOff.count * 2))
    }
}
