import Collections

/// Tells all threads whether the store can write changes. A lock protects the value, because the writer's thread sets
/// it and other threads read it.
struct StoreHealth: Sendable {
    /// The reason why changes cannot be written; `nil` if changes can be written.
    var failure: String?
}

/// Changes that failed, and for whose results no requester waits. They are kept in order until the disk has room.
struct DeferredChanges {
    private(set) var entries = Queue<StoreIntake.Entry>()
    private(set) var count = 0
    /// The number of deferred changes that were dropped since the last ``clear()``.
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

    /// Removes all deferred changes after they were written.
    mutating func clear() {
        entries = Queue()
        count = 0
        lost = 0
    }
}
