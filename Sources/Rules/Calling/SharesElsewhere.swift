import Bytes
import Timekeeping

/// The waiting requests of accounts at the other nodes of a cluster, as ``HeldShares`` adds them to its own counts.
///
/// With each sign of life, a node tells the present shares of its largest accounts. Each new list of a node replaces the
/// node's earlier list. A list counts for five seconds, so the shares of an ended node end by themselves.
struct SharesElsewhere: Sendable {
    private struct List {
        var shares: [UInt64: HeldShares.Share] = [:]
        let at: Instant
    }

    private let secret: SipHash.Key
    private var lists: [UInt32: List] = [:]
    /// The largest accounts at this node, each with the share from which the other nodes must know it.
    private var told: [UInt64: HeldShares.Share] = [:]
    /// The number of accounts that found no place in ``told`` since the last ``take(_:)``.
    private var dropped = 0

    /// How long a list counts without a new list.
    private static let life: Duration = .seconds(5)
    /// The maximum numbers of accounts that are noted, and that leave at once.
    private static let capacity = 8192
    private static let most = 256
    /// An account that is left out with at least four times its floor is worth a line in the log.
    private static let worthALine = 4.0

    init(secret: SipHash.Key) { self.secret = secret }

    /// The share of an account at all other nodes.
    func share(of account: UInt64, now: Instant) -> HeldShares.Share {
        var sum = HeldShares.Share()
        guard !lists.isEmpty else { return sum }
        let key = key(of: account)
        for list in lists.values where now - list.at < Self.life {
            if let share = list.shares[key] { sum += share }
        }
        return sum
    }

    /// The key of an account in the database, which reveals no user and no address.
    private func key(of account: UInt64) -> UInt64 {
        var hash = SipHash(key: secret)
        hash.mix(account)
        return hash.value
    }

    // MARK: This node's shares

    /// Notes the present share of an account. The parameter `floor` is the share from which the other nodes must know it.
    mutating func noted(_ share: HeldShares.Share, of account: UInt64, floor: HeldShares.Share) {
        guard share.reaches(floor), told[account] == nil else { return }
        if told.count < Self.capacity { told[account] = floor } else { dropped += 1 }
    }

    /// The present shares of the largest accounts for the other nodes.
    ///
    /// - Parameter present: returns the share of an account at this node.
    /// - Returns: the shares, and the number of large accounts that were left out.
    mutating func take(_ present: (UInt64) -> HeldShares.Share) -> (counts: [SharedCount], dropped: Int) {
        defer { dropped = 0 }
        told = told.filter { present($0).reaches($1) }
        var chosen = told.map { (account: $0, share: present($0), floor: $1) }
        if chosen.count > Self.most {
            chosen.sort { $0.share.ratio(to: $0.floor) > $1.share.ratio(to: $1.floor) }
            dropped += chosen[Self.most...].count { $0.share.ratio(to: $0.floor) >= Self.worthALine }
            chosen.removeLast(chosen.count - Self.most)
        }
        let counts = chosen.flatMap { account, share, _ in
            [
                SharedCount(.heldCalls, key(of: account), count: share.calls),
                SharedCount(.heldBytes, key(of: account), count: share.bytes),
            ]
        }
        return (counts, dropped)
    }

    // MARK: The shares of other nodes

    /// Replaces the lists of other nodes by newer lists. If two lists of a node have come, the newer list counts.
    mutating func add(_ counts: [SharedCount], now: Instant) {
        lists = lists.filter { now - $0.value.at < Self.life }
        var found: [UInt32: List] = [:]
        for count in counts where count.limit == .heldCalls || count.limit == .heldBytes {
            let at = now + (.zero - max(.zero, count.age))
            if let known = found[count.run], known.at > at { continue }
            if found[count.run].map({ $0.at < at }) ?? true { found[count.run] = List(at: at) }
            var share = HeldShares.Share()
            if count.limit == .heldCalls { share.calls = count.count } else { share.bytes = count.count }
            found[count.run]?.shares[count.key, default: HeldShares.Share()] += share
        }
        for (run, list) in found where lists[run].map({ $0.at < list.at }) ?? true { lists[run] = list }
    }
}

extension HeldShares.Share {
    fileprivate func reaches(_ floor: HeldShares.Share) -> Bool { calls >= floor.calls || bytes >= floor.bytes }

    fileprivate func ratio(to floor: HeldShares.Share) -> Double {
        max(Double(calls) / Double(max(floor.calls, 1)), Double(bytes) / Double(max(floor.bytes, 1)))
    }
}
