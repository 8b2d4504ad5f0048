package import Addressing
package import Bytes
import PushDelivery
package import Timekeeping

/// Limits the number of wrong passwords from one source and for one user. After too many wrong passwords, further
/// passwords from the source or for the user are not checked for some time (T8). Wrong passwords in SIP and in HTTP are
/// counted together.
///
/// Each table has a maximum size, and its keys are seeded hashes. Wrong passwords for unknown users count too. A right
/// password does not reset the count. Otherwise a user with a password could get more guesses for another user's
/// password.
///
/// Strangers cannot lock out a user: where the user has authenticated before, only wrong passwords from the same source
/// count.
package struct LoginLimit: Sendable {
    private var sources: RateLimit<Int>
    private var users: RateLimit<Int>
    /// The counts of wrong passwords from sources where the user has authenticated before, by user and source.
    private var known: RateLimit<Int>
    /// Hashes of pairs of a user and a source, for each right password that came from the source. The hashes are in two
    /// sets, so that the older half can be dropped.
    private var recentProofs = Set<Int>()
    private var olderProofs = Set<Int>()

    /// The maximum number of keys in each table.
    package static let capacity = 65_536

    /// An attempt to authenticate with a password.
    package struct Attempt: Sendable {
        /// The source address of the attempt; `nil` for a trusted peer, which sends for many phones.
        package let source: IPAddress?
        /// The user whose password is checked; `nil` for an API key or token, which belongs to no user.
        package let user: AddressOfRecord?
        /// Whether the user has a contact with the source address of the attempt.
        package let isAtHome: Bool

        package init(from source: IPAddress?, for user: AddressOfRecord? = nil, isAtHome: Bool = false) {
            self.source = source?.source
            self.user = user
            self.isAtHome = isAtHome
        }

    }

    /// The secret key of the hashes. All nodes of a cluster have the same key, because they exchange hashes; `nil` for
    /// hashes that only this process knows.
    private let secret: SipHash.Key?

    private func hash(source: IPAddress?, user: AddressOfRecord?) -> Int {
        guard let secret else {
            var hasher = Hasher()
            hasher.combine(source)
            hasher.combine(user)
            return hasher.finalize()
        }
        var hash = SipHash(key: secret)
        hash.mix(source?.high ?? 0)
        hash.mix(source?.low ?? 0)
        hash.mix(user?.user ?? .empty)
        hash.mix(user?.host ?? .empty)
        return Int(truncatingIfNeeded: hash.value)
    }

    private func pair(_ attempt: Attempt) -> Int { hash(source: attempt.source, user: attempt.user) }

    /// Creates the limits of wrong passwords from the settings.
    ///
    /// - Parameters:
    ///   - perSource: the maximum number of wrong passwords a minute from one IPv4 address or IPv6 /64; 0 for no limit.
    ///   - perUser: the maximum number of wrong passwords a minute for one user; 0 for no limit.
    ///   - secret: the key that all nodes of a cluster have; `nil` without a cluster.
    package init(perSource: Int, perUser: Int, secret: SipHash.Key? = nil) {
        self.secret = secret
        sources = RateLimit(perMinute: perSource, capacity: Self.capacity)
        users = RateLimit(perMinute: perUser, capacity: Self.capacity)
        known = RateLimit(perMinute: perUser, capacity: Self.capacity)
    }

    /// How long the attempt's password must wait for its check; `nil` for an immediate check.
    package func wait(for attempt: Attempt, now: Instant) -> Duration? {
        if isKnown(attempt) { return known.wait(for: pair(attempt), now: now) }
        let waits = [
            attempt.source.flatMap { sources.wait(for: hash(source: $0, user: nil), now: now) },
            attempt.user.flatMap { users.wait(for: hash(source: nil, user: $0), now: now) },
        ]
        return waits.compactMap(\.self).max()
    }

    /// Counts an attempt with a wrong password, and adds the counts to `untold` for the other nodes.
    package mutating func failed(_ attempt: Attempt, now: Instant, untold: inout UntoldCounts?) {
        if isKnown(attempt) {
            let key = pair(attempt)
            if known.admit(key, now: now) {
                untold?.counted(
                    .wrongLoginsOfPair, UInt64(bitPattern: Int64(key)), load: known.load(of: key, now: now), now: now)
            }
            return
        }
        if let source = attempt.source {
            let key = hash(source: source, user: nil)
            if sources.admit(key, now: now) {
                untold?.counted(
                    .wrongLoginsOfSource, UInt64(bitPattern: Int64(key)), load: sources.load(of: key, now: now),
                    now: now)
            }
        }
        if let user = attempt.user {
            let key = hash(source: nil, user: user)
            if users.admit(key, now: now) {
                untold?.counted(
                    .wrongLoginsOfUser, UInt64(bitPattern: Int64(key)), load: users.load(of: key, now: now), now: now)
            }
        }
    }

    /// Counts an attempt with a wrong password.
    package mutating func failed(_ attempt: Attempt, now: Instant) {
        var untold: UntoldCounts?
        failed(attempt, now: now, untold: &untold)
    }

    /// Counts wrong passwords that another node has counted.
    package mutating func add(_ told: SharedCount, now: Instant) {
        let key = Int(truncatingIfNeeded: told.key)
        switch told.limit {
        case .wrongLoginsOfSource: sources.add(told.count, of: key, age: told.age, now: now)
        case .wrongLoginsOfUser: users.add(told.count, of: key, age: told.age, now: now)
        case .wrongLoginsOfPair: known.add(told.count, of: key, age: told.age, now: now)
        case .pushesToDevice, .pushesOfStrangersToDevice, .pushesOfCallerToDevice, .notificationsToDevice,
            .notificationsOfStrangersToDevice, .notificationsOfCallerToDevice, .pushesOfCaller, .heldCalls, .heldBytes:
            break
        }
    }

    /// Notes an attempt to log in with the right password. A success through a trusted peer is not noted, because the
    /// peer's address is not the user's source.
    package mutating func succeeded(_ attempt: Attempt) {
        guard attempt.source != nil, attempt.user != nil, recentProofs.insert(pair(attempt)).inserted,
            recentProofs.count >= Self.capacity / 2
        else { return }
        olderProofs = recentProofs
        recentProofs.removeAll(keepingCapacity: true)
    }

    private func isKnown(_ attempt: Attempt) -> Bool {
        guard attempt.source != nil, attempt.user != nil else { return false }
        if attempt.isAtHome { return true }
        let pair = pair(attempt)
        return recentProofs.contains(pair) || olderProofs.contains(pair)
    }
}
