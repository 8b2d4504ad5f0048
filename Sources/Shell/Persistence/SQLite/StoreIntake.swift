import Addressing
import Collections
import ProxyCore
import Registration

/// The queue of changes that must be written, in their order. The intake is behind a lock, because every shard adds
/// entries to it.
///
/// Lazy rows are refreshed bindings, which wait outside the queue. A crash may lose lazy rows.
struct StoreIntake {
    struct Entry: Sendable {
        /// The ticket of the caller that waits for the changes; `nil` if no caller waits.
        let ticket: StoreTicket?
        let changes: [RowChange]
    }

    /// The contents of one transaction: first the entries in order, then lazy rows.
    struct Batch: Sendable {
        var entries: [Entry] = []
        var lazyRows: [StoredBinding] = []
        /// Whether the queue still has entries for the next transaction.
        var leavesEntries = false

        var isEmpty: Bool { entries.isEmpty && lazyRows.isEmpty }
        var changeCount: Int { entries.reduce(lazyRows.count) { $0 + $1.changes.count } }
    }

    private var entries = Queue<Entry>()
    /// How many entries in the queue have a ticket, and how many entries with a ticket the last commits had.
    private var awaited = 0
    private var groupSize = 0
    /// The value of ``StoreWriterSettings/groupSizeLimit``.
    private let groupSizeLimit: Int
    /// How many changes wait in the queue, without lazy rows.
    private(set) var count = 0
    private var lazyRows: [DeviceID: StoredBinding] = [:]
    private(set) var isClosed = false
    /// The last notice that the writer's thread got about waiting entries.
    private var announced = Notice.none
    /// Whether the writer's thread will soon look for entries without a notice, see ``gatheringEnded()``.
    private var isGathering = false

    /// The notices to the writer's thread.
    enum Notice: Comparable {
        case none
        /// Entries wait, and none of them has a ticket. The writer may wait for more entries.
        case soon
        /// An entry with a ticket waits, so the writer must act now. Under load, the commit waits for its turn, see
        /// ``CommitTurns``.
        case now
        /// As many entries wait as the last commits had, so the writer must act immediately. The entries may come from
        /// all phones that are active now, so the commit does not wait for its turn.
        case atOnce
    }

    init(groupSizeLimit: Int) { self.groupSizeLimit = groupSizeLimit }

    var lazyCount: Int { lazyRows.count }
    /// Whether the queue has as many entries with a ticket as the last commits had.
    var isGroupComplete: Bool { groupSize >= groupSizeLimit && awaited >= groupSize }

    /// Adds an entry to the queue.
    ///
    /// - Parameters:
    ///   - entry: the changes to write.
    ///   - limit: how many changes may wait.
    ///   - gatherLimit: how many changes without a ticket may wait before the writer gets a notice.
    /// - Returns: the notice for the writer's thread; `nil` if the queue is full.
    mutating func add(_ entry: Entry, limit: Int, gatherLimit: Int = .max) -> Notice? {
        guard !isClosed, count + entry.changes.count <= limit else { return nil }
        // A lazy row that is older than this change must not be written after the change.
        for case .engine(.binding(let change)) in entry.changes { lazyRows.removeValue(forKey: change.id) }
        entries.append(entry)
        count += entry.changes.count
        if entry.ticket != nil { awaited += 1 }
        let wanted: Notice =
            entry.ticket != nil
            ? (isGroupComplete ? .atOnce : .now)
            : count >= gatherLimit ? .now : isGathering ? .none : .soon
        guard wanted > announced else { return Notice.none }
        announced = wanted
        if wanted == .soon { isGathering = true }
        return wanted
    }

    /// Notes that the gathering time is over. After this call, new entries cause notices to the writer's thread again.
    ///
    /// - Returns: whether entries wait now.
    mutating func gatheringEnded() -> Bool {
        isGathering = false
        return !entries.isEmpty
    }

    /// Adds lazy rows. A newer row replaces an older row of the same binding.
    ///
    /// - Returns: whether no lazy row waited before; `nil` if not all rows have room.
    mutating func addLazily(_ rows: [StoredBinding], limit: Int) -> Bool? {
        guard !isClosed, lazyRows.count + rows.count <= limit else { return nil }
        defer {
            for row in rows { lazyRows[row.id] = row }
        }
        return lazyRows.isEmpty
    }

    /// Adds the lazy rows of a failed transaction again, except for bindings with a newer row or change.
    mutating func restore(_ rows: [StoredBinding]) {
        var newer: Set<DeviceID> = []
        for entry in entries.elements {
            for case .engine(.binding(let change)) in entry.changes { newer.insert(change.id) }
        }
        for row in rows where lazyRows[row.id] == nil && !newer.contains(row.id) { lazyRows[row.id] = row }
    }

    /// Takes the changes of the next transaction. Lazy rows follow only when the queue is empty, because they must not
    /// overtake other changes.
    mutating func take(limit: Int, withLazyRows: Bool) -> Batch {
        var batch = Batch()
        var taken = 0
        while let entry = entries.first, batch.entries.isEmpty || taken + entry.changes.count <= limit {
            taken += entry.changes.count
            batch.entries.append(entry)
            _ = entries.popFirst()
        }
        count -= taken
        let tickets = batch.entries.count { $0.ticket != nil }
        awaited -= tickets
        // The estimate rises immediately and falls slowly. If it fell fast, a few small commits would lower the group
        // size too far.
        groupSize = max(tickets, groupSize - (groupSize + 7) / 8)
        if entries.isEmpty { announced = .none } else { batch.leavesEntries = true }
        guard withLazyRows, entries.isEmpty, taken < limit else { return batch }
        while taken < limit, let (id, row) = lazyRows.first {
            lazyRows.removeValue(forKey: id)
            batch.lazyRows.append(row)
            taken += 1
        }
        return batch
    }

    /// Refuses all later changes. Changes in the queue are still written.
    mutating func close() { isClosed = true }
}

extension BindingChange {
    var id: DeviceID {
        switch self {
        case .upsert(let row): row.id
        case .delete(let id): id
        }
    }
}
