import Collections

/// Whether changes can be written. Behind a lock, because the writer's thread sets it and other threads read it.
struct StoreHealth: Sendable {
    /// Why changes cannot be written; `nil` if they can.
    var failure: String?
}

/// Changes without a ticket that could not be written. They are kept in their order until the disk has room.
struct DeferredChanges {
    private(set) var entries = Queue<StoreIntake.Entry>()
    private(set) var count = 0
    /// How many changes were dropped since the last ``clear()``.
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

    /// Removes all, because changes are written again.
    mutating func clear() {
        entries = Queue()
        count = 0
        lost = 0
    }
}
