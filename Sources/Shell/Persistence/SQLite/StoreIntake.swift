import Addressing
import Collections
import ProxyCore
import Registration

/// The queue of changes to write, in order. Behind a lock, because every shard adds to it.
struct StoreIntake {
    struct Entry: Sendable {
        /// `nil` if no caller waits for the changes.
        let ticket: StoreTicket?
        let changes: [RowChange]
    }

    /// The contents of one transaction: first the entries in order, then the lazy rows, for which no caller waits.
    struct Batch: Sendable {
        var entries: [Entry] = []
        var lazyRows: [StoredBinding] = []
        /// Whether entries are left for the next transaction.
        var leavesEntries = false

        var isEmpty: Bool { entries.isEmpty && lazyRows.isEmpty }
        var changeCount: Int { entries.reduce(lazyRows.count) { $0 + $1.changes.count } }
    }

    private var entries = Queue<Entry>()
    /// How many of the entries have a ticket, and how many such entries recent commits had.
    private var awaited = 0
    private var groupSize = 0
    /// See ``StoreWriterSettings/groupSizeLimit``.
    private let groupSizeLimit: Int
    /// How many changes wait, without lazy rows.
    private(set) var count = 0
    private var lazyRows: [DeviceID: StoredBinding] = [:]
    private(set) var isClosed = false
    /// The last notice to the writer's thread about waiting entries.
    private var announced = Notice.none
    /// Whether the writer's thread will check for entries later by itself, see ``gatheringEnded()``.
    private var isGathering = false

    /// The notices to the writer's thread.
    enum Notice: Comparable {
        case none
        /// Entries wait, all without a ticket. More may gather.
        case soon
        /// An entry with a ticket waits. Under load the commit waits for its turn, see ``CommitTurns``.
        case now
        /// As many entries wait as recent commits had. They may come from all phones that are active now, so the commit
        /// need not wait for its turn.
        case atOnce
    }

    init(groupSizeLimit: Int) { self.groupSizeLimit = groupSizeLimit }

    var lazyCount: Int { lazyRows.count }
    /// As many entries with a ticket wait as recent commits had.
    var isGroupComplete: Bool { groupSize >= groupSizeLimit && awaited >= groupSize }

    /// - Parameters:
    ///   - entry: the changes to write.
    ///   - limit: how many changes may wait.
    ///   - gatherLimit: how many may gather without a notice.
    /// - Returns: `nil` if the queue is full, otherwise the notice for the writer's thread.
    mutating func add(_ entry: Entry, limit: Int, gatherLimit: Int = .max) -> Notice? {
        guard !isClosed, count + entry.changes.count <= limit else { return nil }
        // An older lazy row must not be written after this change.
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

    /// The gathering time is over. Later entries must be announced again.
    ///
    /// - Returns: whether entries wait now.
    mutating func gatheringEnded() -> Bool {
        isGathering = false
        return !entries.isEmpty
    }

    /// - Returns: `nil` if the queue has no room for all of them, else whether these are the first ones in it.
    mutating func addLazily(_ rows: [StoredBinding], limit: Int) -> Bool? {
        guard !isClosed, lazyRows.count + rows.count <= limit else { return nil }
        defer {
            for row in rows { lazyRows[row.id] = row }
        }
        return lazyRows.isEmpty
    }

    /// Lazy rows of a failed transaction wait again, unless a newer row replaced them.
    mutating func restore(_ rows: [StoredBinding]) {
        var newer: Set<DeviceID> = []
        for entry in entries.elements {
            for case .engine(.binding(let change)) in entry.changes { newer.insert(change.id) }
        }
        for row in rows where lazyRows[row.id] == nil && !newer.contains(row.id) { lazyRows[row.id] = row }
    }

    /// Takes the changes of the next transaction. Lazy rows come only after all other changes, because they must not
    /// overtake them.
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
        // The average grows immediately and shrinks slowly. Otherwise small commits would lower it too fast.
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

    /// Refuses everything from now on. Waiting changes are still written.
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
