package import Addressing
import PushDelivery
package import Timekeeping

/// Limits how many wrong passwords a source may show, and how many may be shown for a user, before none is looked at
/// any more (T8). SIP and HTTP share one limit.
///
/// Its memory is bounded: the keys of the tables are seeded hashes, and each table holds only so many. Users count
/// whether they exist or not. A right password does not make up for wrong ones, so that whoever has one user's password
/// gets no more tries at another's.
///
/// But a user is not locked out by others: at a place where the user has shown the right password before, only wrong
/// passwords from that place count, and only for that user.
package struct LoginLimit: Sendable {
    private var sources: RateLimit<Int>
    private var users: RateLimit<Int>
    /// The wrong passwords by user and source, for users who are known at that source.
    private var known: RateLimit<Int>
    /// Which users have shown their password from where: the newer half, and the older.
    private var recentProofs = Set<Int>()
    private var olderProofs = Set<Int>()

    /// How many keys each table remembers.
    package static let capacity = 65_536

    /// One password that somebody shows.
    package struct Attempt: Sendable {
        /// Who asks; `nil` for a trusted peer, which speaks for many.
        package let source: IPAddress?
        /// Whose password it would be; `nil` for what is no user's.
        package let user: AddressOfRecord?
        /// Whether the user has a contact at that source.
        package let isAtHome: Bool

        package init(from source: IPAddress?, for user: AddressOfRecord? = nil, isAtHome: Bool = false) {
            self.source = source?.source
            self.user = user
            self.isAtHome = isAtHome
        }

        fileprivate var pair: Int {
            var hasher = Hasher()
            hasher.combine(source)
            hasher.combine(user)
            return hasher.finalize()
        }
    }

    /// - Parameters:
    ///   - perSource: how many wrong passwords a minute one IPv4 address or IPv6 /64 may show; 0 for any number.
    ///   - perUser: how many wrong passwords a minute may be shown for one user; 0 for any number.
    package init(perSource: Int, perUser: Int) {
        sources = RateLimit(perMinute: perSource, capacity: Self.capacity)
        users = RateLimit(perMinute: perUser, capacity: Self.capacity)
        known = RateLimit(perMinute: perUser, capacity: Self.capacity)
    }

    /// How long to wait until a password is looked at; `nil` if it may be looked at now.
    package func wait(for attempt: Attempt, now: Instant) -> Duration? {
        if isKnown(attempt) { return known.wait(for: attempt.pair, now: now) }
        let waits = [
            attempt.source.flatMap { sources.wait(for: $0.hashValue, now: now) },
            attempt.user.flatMap { users.wait(for: $0.hashValue, now: now) },
        ]
        return waits.compactMap(\.self).max()
    }

    /// A password was wrong.
    package mutating func failed(_ attempt: Attempt, now: Instant) {
        if isKnown(attempt) {
            _ = known.admit(attempt.pair, now: now)
            return
        }
        if let source = attempt.source { _ = sources.admit(source.hashValue, now: now) }
        if let user = attempt.user { _ = users.admit(user.hashValue, now: now) }
    }

    /// A password was right. If a trusted peer has shown it, it does not tell where the user is.
    package mutating func succeeded(_ attempt: Attempt) {
        guard attempt.source != nil, attempt.user != nil, recentProofs.insert(attempt.pair).inserted,
            recentProofs.count >= Self.capacity / 2
        else { return }
        olderProofs = recentProofs
        recentProofs.removeAll(keepingCapacity: true)
    }

    private func isKnown(_ attempt: Attempt) -> Bool {
        guard attempt.source != nil, attempt.user != nil else { return false }
        if attempt.isAtHome { return true }
        let pair = attempt.pair
        return recentProofs.contains(pair) || olderProofs.contains(pair)
    }
}
