package import ProxyCore
package import PushPlanning
package import Registration
package import Timekeeping

/// One change of the store for the writer's thread. The byte strings must be copies, because a slice would keep a whole
/// message in memory.
package enum RowChange: Sendable {
    case engine(EngineChange)
    case timeline(TimelineChange)
    case service(ServiceChange)
    /// Deletes timeline records that are older than `before`, and the oldest records above the number `keeping`. Only
    /// the `limit` oldest timeline records are examined.
    case pruneTimeline(before: UnixTime, keeping: Int, limit: Int)
    /// Counts the pushes about calls in the next `limit` timeline records, for the report of wakes.
    case countWakes(limit: Int)
    /// Deletes the counts of wakes from before the given day (in days since 1970).
    case pruneWakes(beforeDay: Int64)
}

/// The ticket of changes that were submitted together; the engine or a service waits for the result of the changes.
package enum StoreTicket: Hashable, Sendable {
    case engine(CommitTicket)
    /// The ticket of a waiting service, with a number that ``DatabaseStore`` assigns.
    case service(UInt64)
}

/// The result of changes that were submitted together.
package struct StoreResult: Hashable, Sendable {
    /// The ticket of the changes; `nil` if no requester waits for their result.
    package let ticket: StoreTicket?
    package let isStored: Bool
    /// Whether the rows that had to be changed existed: see ``WriteResult/isFound``.
    package var isFound = true
}
