/// Events that one node of a cluster has admitted under a limit, and that the other nodes must count too.
package struct SharedCount: Hashable, Sendable {
    /// The limits that hold for all nodes together. The numbers are in the database.
    package enum Limit: UInt8, CaseIterable, Sendable {
        case wrongLoginsOfSource = 1
        case wrongLoginsOfUser
        /// Wrong passwords of a user from an address where the user has authenticated before.
        case wrongLoginsOfPair
        case pushesToDevice
        case pushesOfStrangersToDevice
        case pushesOfCallerToDevice
        case notificationsToDevice
        case notificationsOfStrangersToDevice
        case notificationsOfCallerToDevice
        case pushesOfCaller
        /// The present number of an account's held calls at a node, and the bytes of its held requests. These are no
        /// events: a node's new list replaces its earlier list.
        case heldCalls
        case heldBytes
    }

    package let limit: Limit
    /// A number that stands for the source, user, device or caller at all nodes.
    package let key: UInt64
    package let count: Int
    /// The time since the last of the events.
    package var age: Duration
    /// The run of the node that has told the events; 0 for this node.
    package var run: UInt32 = 0

    package init(_ limit: Limit, _ key: UInt64, count: Int, age: Duration = .zero) {
        (self.limit, self.key, self.count, self.age) = (limit, key, count, age)
    }
}

/// The events that this node has counted and the other nodes do not know yet.
///
/// The number of keys is limited. If too many keys have new events, the keys that are closest to their limits go first.
/// So an attacker with many sources cannot hide a source that guesses often.
package struct UntoldCounts: Sendable {
    private struct Name: Hashable {
        let limit: SharedCount.Limit
        let key: UInt64
    }

    private struct Entry {
        var count = 0
        /// How long the key's events count at this node. A higher load is closer to the limit.
        var load = Duration.zero
        var last: Instant
    }

    /// The maximum number of keys that wait, and of keys that leave at once.
    package static let capacity = 4096
    package static let most = 256
    /// The time after which events no longer count.
    private static let span: Duration = .seconds(60)

    private var entries: [Name: Entry] = [:]
    /// The number of keys whose events were dropped since the last ``take(now:)``.
    private var dropped = 0

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }
    package var count: Int { entries.count }

    /// Notes one event of a key. The parameter `load` says how long the key's events count from now on.
    package mutating func counted(_ limit: SharedCount.Limit, _ key: UInt64, load: Duration, now: Instant) {
        let name = Name(limit: limit, key: key)
        var entry = entries[name] ?? Entry(last: now)
        entry.count += 1
        entry.load = load
        entry.last = now
        entries[name] = entry
        if entries.count > Self.capacity { dropLeast() }
    }

    /// Drops at least half of the keys, so that a flood of new keys does not cause a sort for each key.
    private mutating func dropLeast() {
        let loads = entries.values.map(\.load).sorted()
        let least = loads[loads.count / 2]
        let before = entries.count
        entries = entries.filter { $0.value.load > least }
        dropped += before - entries.count
    }

    /// Takes the events of the keys that are closest to their limits. The other keys wait for the next call.
    ///
    /// - Returns: the events, and the number of keys whose events were dropped since the last call.
    package mutating func take(now: Instant) -> (counts: [SharedCount], dropped: Int) {
        defer { dropped = 0 }
        guard !entries.isEmpty else { return ([], dropped) }
        entries = entries.filter { now - $0.value.last < Self.span }
        var chosen = Array(entries)
        if chosen.count > Self.most {
            chosen.sort { $0.value.load > $1.value.load }
            chosen.removeLast(chosen.count - Self.most)
        }
        for (name, _) in chosen { entries[name] = nil }
        let counts = chosen.map { name, entry in
            SharedCount(name.limit, name.key, count: entry.count, age: now - entry.last)
        }
        return (counts, dropped)
    }
}
