package import Addressing
import PushDelivery
package import SIPGrammar
package import Timekeeping

/// How many wrong passwords a source may show, and how many may be shown for a user, before none is looked at any more
/// (T8).
///
/// Pure. Nothing that goes well is counted or forgiven: who has one user's password gets no more tries at another's. Users
/// count whether they exist or not. Keys of the tables are seeded hashes, so that a long name takes no more memory.
package struct LoginLimit: Sendable {
    private var sources: RateLimit<Int>
    private var users: RateLimit<Int>

    /// Sources, and users, that are remembered.
    package static let capacity = 65_536

    /// - Parameters:
    ///   - perSource: wrong ones a minute from one IPv4 address or IPv6 /64; 0 for any number.
    ///   - perUser: wrong ones a minute for one user, whoever shows them; 0 for any number.
    package init(perSource: Int, perUser: Int) {
        sources = RateLimit(perMinute: perSource, capacity: Self.capacity)
        users = RateLimit(perMinute: perUser, capacity: Self.capacity)
    }

    /// Whether a password is looked at now.
    ///
    /// - Parameters:
    ///   - source: who asks.
    ///   - user: whose password it would be; `nil` for what is no user's.
    ///   - now: the monotonic time.
    /// - Returns: how long whoever asks must wait; `nil`: not at all.
    package func wait(from source: IPAddress, for user: ByteString? = nil, now: Instant) -> Duration? {
        let waits = [
            sources.wait(for: source.source.hashValue, now: now),
            user.flatMap { users.wait(for: $0.hashValue, now: now) },
        ]
        return waits.compactMap(\.self).max()
    }

    /// One was wrong.
    package mutating func failed(from source: IPAddress, for user: ByteString? = nil, now: Instant) {
        _ = sources.admit(source.source.hashValue, now: now)
        if let user { _ = users.admit(user.hashValue, now: now) }
    }
}
