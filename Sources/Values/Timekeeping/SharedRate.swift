/// Limits the rate of events for a target, of which each causing party has a share (T32).
///
/// It stores an instant for each active target, and for each pair; the number of pairs is limited. Specialised for its
/// keys like ``RateLimit``: each call asks two of them.
@usableFromInline
package struct SharedRate<Key: Hashable & Sendable>: Sendable {
    @usableFromInline var whole: RateLimit<Key>
    @usableFromInline var untrusted: RateLimit<Key>
    @usableFromInline var pairs: RateLimit<UInt64>

    private static var mostPairs: Int { 131_072 }

    /// - Parameters:
    ///   - share: the limits of events in a span of time; a whole of 0 means no limit.
    ///   - span: its length.
    ///   - limitsWhole: false if only the shares are limits, because beyond the whole the oldest event is dropped.
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

    /// One more event. It is counted if it is within the limits.
    ///
    /// - Parameters:
    ///   - key: the target.
    ///   - pair: a number for the pair of causing party and target; `nil` for ourselves.
    ///   - isTrusted: whether a trusted peer caused it.
    ///   - now: the time.
    /// - Returns: whether it is within the limits.
    @inlinable
    package mutating func admit(_ key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        guard hasRoom(for: key, by: pair, isTrusted: isTrusted, now: now) else { return false }
        _ = whole.admit(key, now: now)
        if !isTrusted { _ = untrusted.admit(key, now: now) }
        if let pair { _ = pairs.admit(pair, now: now) }
        return true
    }

    /// The same without counting.
    @inlinable
    package func hasRoom(for key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        if let pair, pairs.wait(for: pair, now: now) != nil { return false }
        return whole.wait(for: key, now: now) == nil && (isTrusted || untrusted.wait(for: key, now: now) == nil)
    }

    /// Whether the limit of the target is used up, by any party.
    package func isUsedUp(_ key: Key, now: Instant) -> Bool { whole.wait(for: key, now: now) != nil }
}
