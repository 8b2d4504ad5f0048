package import Addressing
import PushDelivery
package import Timekeeping

/// Limits the wrong passwords from one source and for one user. At the limit, no password is checked (T8). Wrong
/// passwords in SIP and HTTP are counted together.
///
/// The memory is limited: the keys of the tables are seeded hashes, and each table has a maximum size. Wrong passwords
/// for unknown users count too. A right password does not reset the count, so a person with one user's password gets no
/// further guesses for another user.
///
/// Strangers cannot lock out a user: at a source where the user has authenticated before, only wrong passwords for this
/// user from this source count.
package struct LoginLimit: Sendable {
    private var sources: RateLimit<Int>
    private var users: RateLimit<Int>
    /// The wrong passwords of users at sources where they have authenticated before, by user and source.
    private var known: RateLimit<Int>
    /// Hashes of users with the sources of their right passwords: the newer half, and the older half.
    private var recentProofs = Set<Int>()
    private var olderProofs = Set<Int>()

    /// The maximum number of keys in each table.
    package static let capacity = 65_536

    /// One attempt to authenticate.
    package struct Attempt: Sendable {
        /// The source of the attempt; `nil` for a trusted peer, which sends for many phones.
        package let source: IPAddress?
        /// The owner of the password; `nil` for a key or token, which has no user.
        package let user: AddressOfRecord?
        /// Whether the user has a contact with this source address.
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

    /// Creates the limits.
    ///
    /// - Parameters:
    ///   - perSource: the maximum number of wrong passwords a minute from one IPv4 address or IPv6 /64; 0 for no
    ///     limit.
    ///   - perUser: the maximum number of wrong passwords a minute for one user; 0 for no limit.
    package init(perSource: Int, perUser: Int) {
        sources = RateLimit(perMinute: perSource, capacity: Self.capacity)
        users = RateLimit(perMinute: perUser, capacity: Self.capacity)
        known = RateLimit(perMinute: perUser, capacity: Self.capacity)
    }

    /// How long to wait before the password of an attempt is checked; `nil` if it is checked now.
    package func wait(for attempt: Attempt, now: Instant) -> Duration? {
        if isKnown(attempt) { return known.wait(for: attempt.pair, now: now) }
        let waits = [
            attempt.source.flatMap { sources.wait(for: $0.hashValue, now: now) },
            attempt.user.flatMap { users.wait(for: $0.hashValue, now: now) },
        ]
        return waits.compactMap(\.self).max()
    }

    /// Counts a wrong password.
    package mutating func failed(_ attempt: Attempt, now: Instant) {
        if isKnown(attempt) {
            _ = known.admit(attempt.pair, now: now)
            return
        }
        if let source = attempt.source { _ = sources.admit(source.hashValue, now: now) }
        if let user = attempt.user { _ = users.admit(user.hashValue, now: now) }
    }

    /// Notes a right password. Nothing is remembered about a trusted peer, because its address is not the user's
    /// source.
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
