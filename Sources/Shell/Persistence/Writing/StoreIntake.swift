import Addressing
import Collections
import ProxyCore
import Registration

/// The queue of changes that wait to be written to the database, oldest first. A lock protects the queue of changes,
/// because every shard adds entries.
///
/// Lazy rows are refreshed bindings that wait outside the queue, and that a crash can lose.
struct StoreIntake {
    struct Entry: Sendable {
        /// The ticket of the requester that awaits the result; `nil` if nobody awaits it.
        let ticket: StoreTicket?
        let changes: [RowChange]
    }

    /// The contents of one transaction: the queue's entries in order, then the lazy rows.
    struct Batch: Sendable {
        var entries: [Entry] = []
        var lazyRows: [StoredBinding] = []
        /// Whether the queue still has entries for the next transaction.
        var leavesEntries = false

        var isEmpty: Bool { entries.isEmpty && lazyRows.isEmpty }
        var changeCount: Int { entries.reduce(lazyRows.count) { $0 + $1.changes.count } }
    }

    private var entries = Queue<Entry>()
    /// The number of queued entries for whose results a requester waits, and the estimate of this number from the last
    /// commits.
    private var awaited = 0
    private var groupSize = 0
    /// The minimum number of entries with waiting requesters that the store treats as a group
    /// (``StoreWriterSettings/groupSizeLimit``).
    private let groupSizeLimit: Int
    /// The number of changes in the queue, without lazy rows.
    private(set) var count = 0
    /// Whether the writer has taken a batch, and has not finished writing it.
    private(set) var isWriting = false
    private var lazyRows: [DeviceID: StoredBinding] = [:]
    private(set) var isClosed = false
    /// The last notice to the writer's thread about waiting entries.
    private var announced = Notice.none
    /// Whether the writer's thread waits for its gathering time to end, and takes new entries without a notice
    /// afterwards.
    private var isGathering = false

    /// The notices that the intake sends to the writer's thread.
    enum Notice: Comparable {
        case none
        /// Entries without awaited results wait, so the writer can wait for more entries.
        case soon
        /// A requester waits for the result of an entry, so the writer must commit now. Under load, the commit begins
        /// at the time that ``CommitTurns`` sets.
        case now
        /// The writer must commit immediately, because as many requesters wait for results as in the last commits. A
        /// later commit would probably have no more entries, because all active phones wait already.
        case atOnce
    }

    init(groupSizeLimit: Int) { self.groupSizeLimit = groupSizeLimit }

    var lazyCount: Int { lazyRows.count }
    /// Whether as many results are awaited as in the last commits.
    var isGroupComplete: Bool { groupSize >= groupSizeLimit && awaited >= groupSize }

    /// Adds an entry to the queue.
    ///
    /// - Parameters:
    ///   - entry: the changes to write to the store.
    ///   - limit: the maximum number of changes that may wait.
    ///   - gatherLimit: the number of waiting changes that causes a notice even if no result is awaited.
    /// - Returns: the notice for the writer's thread; `nil` if the queue is full.
    mutating func add(_ entry: Entry, limit: Int, gatherLimit: Int = .max) -> Notice? {
        guard !isClosed, count + entry.changes.count <= limit else { return nil }
        // An older lazy row of the same binding must not be written after the newer change.
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

    /// Notes the end of the gathering time, so that new entries cause notices to the writer's thread again.
    ///
    /// - Returns: whether entries wait now.
    mutating func gatheringEnded() -> Bool {
        isGathering = false
        return !entries.isEmpty
    }

    /// Adds lazy rows, each of which replaces the older lazy row of its binding.
    ///
    /// - Returns: whether no lazy row waited before; `nil` if the queue has no room for all rows.
    mutating func addLazily(_ rows: [StoredBinding], limit: Int) -> Bool? {
        guard !isClosed, lazyRows.count + rows.count <= limit else { return nil }
        defer {
            for row in rows { lazyRows[row.id] = row }
        }
        return lazyRows.isEmpty
    }

    /// Adds the lazy rows of a failed transaction again; a row is omitted if its binding has a newer row or change.
    mutating func restore(_ rows: [StoredBinding]) {
        var newer: Set<DeviceID> = []
        for entry in entries.elements {
            for case .engine(.binding(let change)) in entry.changes { newer.insert(change.id) }
        }
        for row in rows where lazyRows[row.id] == nil && !newer.contains(row.id) { lazyRows[row.id] = row }
    }

    /// Removes the changes of the next transaction from the queue. Lazy rows are removed only when the queue is empty,
    /// because they must not overtake other changes.
    mutating func take(limit: Int, withLazyRows: Bool) -> Batch {
        var batch = Batch()
        var taken = 0
        while let entry = entries.first, batch.entries.isEmpty || taken + entry.changes.count <= limit {
            taken += entry.changes.count
            batch.entries.append(entry)
            _ = entries.popFirst()
        }
        count -= taken
        isWriting = true
        let tickets = batch.entries.count { $0.ticket != nil }
        awaited -= tickets
        // The estimated group size rises immediately and falls slowly, so that a few small commits do not lower the
        // estimate too far.
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

    /// Notes that the writer has finished the batch that it took.
    mutating func written() { isWriting = false }

    /// Refuses all later changes; changes in the queue are still written.
    mutating func close() { isClosed = true }
}

extension BindingChange {
    var id: DeviceID {
        switch self {
        case .upsert(let row), .refresh(let row): row.id
        case .delete(let id), .deleteContact(let id, _), .expire(let id, _): id
        }
    }
}
