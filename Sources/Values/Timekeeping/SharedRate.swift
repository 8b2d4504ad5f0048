/// Limits how often something may happen to somebody, of which each who causes it has a share (T32).
///
/// It keeps an instant for each who is busy, and for each pair; the number of pairs has a limit. Compiled for its keys, as
/// ``RateLimit`` is: each call asks two of them.
@usableFromInline
package struct SharedRate<Key: Hashable & Sendable>: Sendable {
    @usableFromInline var whole: RateLimit<Key>
    @usableFromInline var untrusted: RateLimit<Key>
    @usableFromInline var pairs: RateLimit<UInt64>

    private static var mostPairs: Int { 131_072 }

    /// - Parameters:
    ///   - share: of the events in a span of time; a whole of 0 lets everything pass.
    ///   - span: how long that is.
    ///   - limitsWhole: false where only the shares are limits, since what is beyond the whole makes the oldest go.
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

    /// One more event. It counts if it is within the limits.
    ///
    /// - Parameters:
    ///   - key: to whom it happens.
    ///   - pair: stands for whoever causes it together with the key; `nil` for ourselves.
    ///   - isTrusted: whether a trusted peer has brought it.
    ///   - now: the time.
    /// - Returns: whether it is.
    @inlinable
    package mutating func admit(_ key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        guard hasRoom(for: key, by: pair, isTrusted: isTrusted, now: now) else { return false }
        _ = whole.admit(key, now: now)
        if !isTrusted { _ = untrusted.admit(key, now: now) }
        if let pair { _ = pairs.admit(pair, now: now) }
        return true
    }

    /// The same, and nothing counts.
    @inlinable
    package func hasRoom(for key: Key, by pair: UInt64?, isTrusted: Bool, now: Instant) -> Bool {
        if let pair, pairs.wait(for: pair, now: now) != nil { return false }
        return whole.wait(for: key, now: now) == nil && (isTrusted || untrusted.wait(for: key, now: now) == nil)
    }

    /// Whether the key has had all that it may have, whoever has caused it.
    package func isUsedUp(_ key: Key, now: Instant) -> Bool { whole.wait(for: key, now: now) != nil }
}
