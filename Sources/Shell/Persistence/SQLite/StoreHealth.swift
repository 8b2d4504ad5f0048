import Collections

/// Whether changes can be written; behind a lock, since the writer's thread knows and others ask.
struct StoreHealth: Sendable {
    /// Why changes cannot be written; `nil` when they can.
    var failure: String?
}

/// Changes that nobody waits for and that could not be written: in their order, until there is room again.
struct DeferredChanges {
    private(set) var entries = Queue<StoreIntake.Entry>()
    private(set) var count = 0
    /// How many changes were given up since the last ``clear()``.
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

    /// Forgets all, because changes are written again.
    mutating func clear() {
        entries = Queue()
        count = 0
        lost = 0
    }
}
