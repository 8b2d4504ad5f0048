/// Limits the rate of events for each target, for example of pushes to a device. Each party that causes events can use
/// only a part of the target's limit (T32).
///
/// One instant is stored for each active target, and for each pair of party and target. The number of stored pairs of
/// party and target is limited. The compiler specialises ``SharedRate`` and ``RateLimit`` for their keys, because each
/// call uses two such limits.
@usableFromInline
package struct SharedRate<Key: Hashable & Sendable>: Sendable {
    @usableFromInline var whole: RateLimit<Key>
    @usableFromInline var untrusted: RateLimit<Key>
    @usableFromInline var pairs: RateLimit<UInt64>

    private static var mostPairs: Int { 131_072 }

    /// Makes a rate limit.
    ///
    /// - Parameters:
    ///   - share: the maximum number of events in a span, for each target and for each party; with 0 for `share.whole`,
    ///     there is no limit.
    ///   - span: the length of the span.
    ///   - limitsWhole: whether the sum of all events has a limit; if false, only each party's part is limited, and the
    ///     owner drops the oldest events.
    package init(_ share: FairShare, in span: Duration = .seconds(60), limitsWhole: Bool = true) {
        whole = RateLimit(limitsWhole ? share.whole : 0, in: span)
        untrusted = RateLimit(share.ofUntrusted < share.whole ? share.ofUntrusted : 0, in: span)
        pairs = RateLimit(share.ofOne < share.whole ? share.ofOne : 0, in: span, capacity: Self.mostPairs)
        self.limitsWhole = limitsWhole
    }

    private let limitsWhole: Bool

    package mutating func changed(_ share: FairShare) {
        whole.limit = limitsWhole ? share.whole : 0
        untrusted.limit = share.ofUntrusted < share.whole ? share.ofUntrusted : 0
        pairs.limit = share.ofOne < share.whole ? share.ofOne : 0
    }

    /// Counts one more event for a target, if the limits allow it.
    ///
    /// - Parameters:
    ///   - key: the target, such as the callee.
    ///   - pair: a 64-bit hash of party and target; `nil` if the daemon itself causes the event.
    ///   - isTrusted: whether a trusted peer causes the event.
    ///   - now: the current time.
    /// - Returns: whether the event is allowed.
    @inlinable
    package mutating func admit(_ key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        guard hasRoom(for: key, by: pair, isTrusted: isTrusted, now: now) else { return false }
        _ = whole.admit(key, now: now)
        if !isTrusted { _ = untrusted.admit(key, now: now) }
        if let pair { _ = pairs.admit(pair, now: now) }
        return true
    }

    /// Whether the limits allow one more event for the target. ``hasRoom(for:by:isTrusted:now:)`` counts no event.
    @inlinable
    package func hasRoom(for key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        if let pair, pairs.wait(for: pair, now: now) != nil { return false }
        return whole.wait(for: key, now: now) == nil && (isTrusted || untrusted.wait(for: key, now: now) == nil)
    }

    /// How long events of the target count from now on: all events, and the events of untrusted parties.
    package func loads(of key: Key, now: Instant) -> (whole: Duration, untrusted: Duration) {
        (whole.load(of: key, now: now), untrusted.load(of: key, now: now))
    }

    /// How long events of the pair of party and target count from now on.
    package func load(of pair: UInt64, now: Instant) -> Duration { pairs.load(of: pair, now: now) }

    /// The limits in which events of other nodes count.
    package enum Part: Sendable {
        case whole, untrusted
    }

    /// Counts events of the target that another node has admitted.
    package mutating func add(_ count: Int, to part: Part, of key: Key, age: Duration, now: Instant) {
        switch part {
        case .whole: whole.add(count, of: key, age: age, now: now)
        case .untrusted: untrusted.add(count, of: key, age: age, now: now)
        }
    }

    /// Counts events of a pair of party and target that another node has admitted.
    package mutating func add(_ count: Int, ofPair pair: UInt64, age: Duration, now: Instant) {
        pairs.add(count, of: pair, age: age, now: now)
    }

    /// Whether all parties together have used up the limit of the target.
    package func isUsedUp(_ key: Key, now: Instant) -> Bool { whole.wait(for: key, now: now) != nil }
}
