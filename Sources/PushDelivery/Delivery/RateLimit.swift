package import Timekeeping

/// So many events a minute for each key, all of them at once if need be (the generic cell rate algorithm).
///
/// Pure. Keeps one instant for each key that was busy within the last minute.
package struct RateLimit<Key: Hashable & Sendable>: Sendable {
    /// Events a minute; 0 lets everything pass.
    package var perMinute: Int
    /// When each key's debt is paid off.
    private var paidOff: [Key: Instant] = [:]
    /// Keys that make a sweep worthwhile.
    private var sweepAt = Self.smallestSweep

    private static var smallestSweep: Int { 1024 }

    package init(perMinute: Int) { self.perMinute = perMinute }

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

    /// The same without counting it.
    package func hasRoom(for key: Key, now: Instant) -> Bool {
        guard perMinute > 0 else { return true }
        let debt = max(paidOff[key] ?? now, now)
        return debt + .seconds(60) / perMinute - now <= .seconds(60)
    }

    private mutating func sweep(now: Instant) {
        paidOff = paidOff.filter { $0.value > now }
        // Twice what is left: each sweep is paid for by as many events.
        sweepAt = max(Self.smallestSweep, paidOff.count * 2)
    }
}
