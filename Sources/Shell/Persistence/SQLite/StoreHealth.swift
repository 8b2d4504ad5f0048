import Collections

/// Whether the store can write changes. The state is behind a lock, because the writer's thread sets it and other
/// threads read it.
struct StoreHealth: Sendable {
    /// Why changes cannot be written; `nil` if they can be written.
    var failure: String?
}

/// Changes that could not be written, and that no caller waits for. The changes are kept in their order until the disk
/// has room.
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
