import Collections

/// Whether the store can write changes. It is behind a lock, because the writer's thread sets it and other threads read
/// it.
struct StoreHealth: Sendable {
    /// Why changes cannot be written; `nil` if they can.
    var failure: String?
}

/// Changes that could not be written and for which no caller waits. They are kept in their order until the disk has
/// room.
struct DeferredChanges {
    private(set) var entries = Queue<StoreIntake.Entry>()
    private(set) var count = 0
    /// How many of these changes were dropped since the last ``clear()``.
    private(set) var lost = 0

    mutating func add(_ added: [StoreIntake.Entry], limit: Int) {
        for entry in added {
            entries.append(entry)
            count += entry.changes.count
        }
        while count > limit, let oldest = entries.popFirst() {
            count -= oldest.changes.count
            lost += oldest.changes.count
        }
    }

    /// Removes all changes, because they were written.
    mutating func clear() {
        entries = Queue()
        count = 0
        lost = 0
    }
}
