/// Limits how much of the event log the events of one user and of one domain may fill, so that a storm of one user's
/// calls or registrations does not displace the events of others.
///
/// While less than half of the log is full, there is no limit, because the receiver can still catch up.
struct EventShares {
    /// The maximum number of bytes in the log.
    var capacity: Int
    /// Whether the daemon serves several domains.
    var hasDomains: Bool
    private(set) var total = 0
    private var users: [UInt64: Int] = [:]
    private var domains: [UInt64: Int] = [:]

    init(capacity: Int, hasDomains: Bool) { (self.capacity, self.hasDomains) = (capacity, hasDomains) }

    /// Whether the log has no room for a further event of this owner.
    func refuses(_ size: Int, of owner: EventOwner) -> Bool {
        // An event of the daemon itself says that other events were lost, so it is never refused.
        guard owner != .daemon, total + size > capacity / 2 else { return false }
        let isTight = total + size > capacity / 4 * 3
        if users[owner.user, default: 0] + size > capacity / (isTight ? 64 : 16) { return true }
        guard hasDomains else { return false }
        let own = domains[owner.domain, default: 0]
        // A domain can reach half of the log by a storm of one user, so the domain's other users need room beyond it.
        // In the last quarter, one part is kept for a domain that has no events yet.
        return own + size > (isTight ? capacity / max(domains.count + 1, 2) : capacity / 4 * 3)
    }

    mutating func add(_ size: Int, of owner: EventOwner) {
        total += size
        users[owner.user, default: 0] += size
        domains[owner.domain, default: 0] += size
    }

    mutating func remove(_ sizes: [EventOwner: Int]) {
        for (owner, size) in sizes {
            total -= size
            Self.lower(&users, owner.user, by: size)
            Self.lower(&domains, owner.domain, by: size)
        }
    }

    private static func lower(_ sizes: inout [UInt64: Int], _ key: UInt64, by size: Int) {
        let rest = sizes[key, default: 0] - size
        sizes[key] = rest > 0 ? rest : nil
    }
}
