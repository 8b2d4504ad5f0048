package import ProxyPolicy

/// The order in which the devices of one call ring (RFC 3261 section 16.6): groups of devices, each with the time at
/// which it begins to ring.
///
/// ``RingTurns`` does no input or output. The engine asks which devices ring at the beginning, and again when the time
/// of the next group has come or all devices that rang have failed.
package struct RingTurns: Hashable, Sendable {
    /// One device of the call, by the index of its branch.
    package struct Member: Hashable, Sendable {
        package let branch: Int
        /// The parameter `q` of the device's contact, in thousandths.
        package let q: UInt16
        /// The device's delay in milliseconds by the user's rules; `nil` if no rule names the device.
        package let delay: Int64?

        package init(branch: Int, q: UInt16, delay: Int64?) {
            self.branch = branch
            self.q = q
            self.delay = delay
        }
    }

    private struct Group: Hashable, Sendable {
        /// The time from the INVITE to the ringing of the group.
        let start: Duration
        var branches: [Int]
    }

    /// The groups that have not begun to ring, in the order of their times.
    private var groups: [Group]
    /// Whether a group stops ringing when the time of the next group comes.
    package let isInTurn: Bool
    /// For each group after the first, the actual time from the INVITE to the beginning of its ringing.
    private var begun: [Int: Duration] = [:]

    /// The largest number of groups. Devices that would be in a later group ring with the last group.
    package static let mostGroups = 16

    /// Divides devices into groups; `nil` if all devices ring at the same time.
    ///
    /// The first group rings at once, even if each of its devices has a delay: no other device rings before it.
    package init?(_ members: [Member], _ order: CallSettings.RingOrder, groupTime: Duration) {
        isInTurn = order == .inTurn
        let values = order == .parallel ? [] : Set(members.filter { $0.delay == nil }.map(\.q)).sorted(by: >)
        var starts: [Duration: [Int]] = [:]
        for member in members {
            let place = values.firstIndex(of: member.q) ?? 0
            let start = member.delay.map { Duration.milliseconds($0) } ?? groupTime * min(place, Self.mostGroups)
            starts[start, default: []].append(member.branch)
        }
        groups = []
        for (start, branches) in starts.sorted(by: { $0.key < $1.key }) {
            if groups.count == Self.mostGroups {
                groups[groups.count - 1].branches += branches
            } else {
                groups.append(Group(start: groups.isEmpty ? .zero : start, branches: branches))
            }
        }
        guard groups.count > 1 else { return nil }
    }

    /// The start of the next group; `nil` if all groups ring.
    package var nextStart: Duration? { groups.first?.start }

    /// The start of the last group.
    package var lastStart: Duration { groups.last?.start ?? .zero }

    /// The start of the group of a branch that has not begun to ring.
    package func start(of branch: Int) -> Duration? {
        groups.first { $0.branches.contains(branch) }?.start
    }

    /// The time from the INVITE to the moment at which the branch began to ring.
    package func begun(_ branch: Int) -> Duration { begun[branch] ?? .zero }

    /// Removes and returns the branches that must ring at the given time after the INVITE.
    package mutating func takeDue(at elapsed: Duration) -> [Int] {
        var due: [Int] = []
        while let first = groups.first, first.start <= elapsed { due += take(at: elapsed, first) }
        return due
    }

    /// Removes and returns the branches of the next group, because all devices that rang have failed.
    package mutating func takeNext(at elapsed: Duration) -> [Int] {
        guard let first = groups.first else { return [] }
        return take(at: elapsed, first)
    }

    private mutating func take(at elapsed: Duration, _ group: Group) -> [Int] {
        groups.removeFirst()
        if elapsed > .zero { for branch in group.branches { begun[branch] = elapsed } }
        return group.branches
    }
}
