import Addressing
import Collections
import ProxyCore
import Registration

/// The changes that wait to be written, in order; behind a lock, because every shard adds to it.
struct StoreIntake {
    struct Entry: Sendable {
        /// `nil` when nobody waits for them.
        let ticket: StoreTicket?
        let changes: [RowChange]
    }

    /// What one transaction writes: first the entries in order, then the lazy rows, for which nobody waits.
    struct Batch: Sendable {
        var entries: [Entry] = []
        var lazyRows: [StoredBinding] = []
        /// Whether entries are left for the next transaction.
        var leavesEntries = false

        var isEmpty: Bool { entries.isEmpty && lazyRows.isEmpty }
        var changeCount: Int { entries.reduce(lazyRows.count) { $0 + $1.changes.count } }
    }

    private var entries = Queue<Entry>()
    /// How many of them somebody waits for, and how many commits had of those lately.
    private var awaited = 0
    private var company = 0
    /// See ``StoreWriterSettings/companyLimit``.
    private let companyLimit: Int
    /// How many changes wait, without lazy ones.
    private(set) var count = 0
    private var lazyRows: [DeviceID: StoredBinding] = [:]
    private(set) var isClosed = false
    /// What the writer's thread has been told about the entries that wait.
    private var announced = Call.none
    /// Whether the writer's thread looks for entries in a while by itself, see ``gatheringEnded()``.
    private var isGathering = false

    /// What the writer's thread is to be told.
    enum Call: Comparable {
        case none
        /// There are entries, but nobody waits for them, so that more may gather.
        case soon
        /// Somebody waits for them; under load the commit has its turn, see ``CommitTurns``.
        case now
        /// As many wait as a commit had lately. Phones may be among them all that there are just now, so the commit need not
        /// wait for its turn.
        case atOnce
    }

    init(companyLimit: Int) { self.companyLimit = companyLimit }

    var lazyCount: Int { lazyRows.count }
    /// Somebody waits for as many as a commit had lately.
    var isInCompany: Bool { company >= companyLimit && awaited >= company }

    /// - Parameters:
    ///   - entry: what is to be written.
    ///   - limit: how many changes may wait.
    ///   - gatherLimit: how many may wait for a while.
    /// - Returns: `nil` when there is no room, otherwise what the writer's thread must be told.
    mutating func add(_ entry: Entry, limit: Int, gatherLimit: Int = .max) -> Call? {
        guard !isClosed, count + entry.changes.count <= limit else { return nil }
        // An older lazy row must not be written after this one.
        for case .engine(.binding(let change)) in entry.changes { lazyRows.removeValue(forKey: change.id) }
        entries.append(entry)
        count += entry.changes.count
        if entry.ticket != nil { awaited += 1 }
        let wanted: Call =
            entry.ticket != nil
            ? (isInCompany ? .atOnce : .now)
            : count >= gatherLimit ? .now : isGathering ? .none : .soon
        guard wanted > announced else { return Call.none }
        announced = wanted
        if wanted == .soon { isGathering = true }
        return wanted
    }

    /// The while is over. Those who come later have to be announced again.
    ///
    /// - Returns: whether there are entries now.
    mutating func gatheringEnded() -> Bool {
        isGathering = false
        return !entries.isEmpty
    }

    /// - Returns: `nil` when there is no room for all of them, else whether these are the first that wait.
    mutating func addLazily(_ rows: [StoredBinding], limit: Int) -> Bool? {
        guard !isClosed, lazyRows.count + rows.count <= limit else { return nil }
        defer {
            for row in rows { lazyRows[row.id] = row }
        }
        return lazyRows.isEmpty
    }

    /// Lazy rows whose transaction failed wait again, unless something newer has come.
    mutating func restore(_ rows: [StoredBinding]) {
        var newer: Set<DeviceID> = []
        for entry in entries.elements {
            for case .engine(.binding(let change)) in entry.changes { newer.insert(change.id) }
        }
        for row in rows where lazyRows[row.id] == nil && !newer.contains(row.id) { lazyRows[row.id] = row }
    }

    /// Takes the changes of the next transaction. Lazy ones come only with the last of the others, as they must not
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
        // It grows at once and shrinks slowly: otherwise it would follow the small commits down.
        company = max(tickets, company - (company + 7) / 8)
        if entries.isEmpty { announced = .none } else { batch.leavesEntries = true }
        guard withLazyRows, entries.isEmpty, taken < limit else { return batch }
        while taken < limit, let (id, row) = lazyRows.first {
            lazyRows.removeValue(forKey: id)
            batch.lazyRows.append(row)
            taken += 1
        }
        return batch
    }

    /// Refuses everything from now on; what waits is still written.
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
