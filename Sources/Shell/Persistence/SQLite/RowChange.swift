package import ProxyCore
package import PushPlanning
package import Registration
package import Timekeeping

/// One change for the writer. Byte strings in a change must be compact copies, so that they do not keep messages in
/// memory.
package enum RowChange: Sendable {
    case engine(EngineChange)
    case timeline(TimelineChange)
    case service(ServiceChange)
    /// Deletes records of the timeline that are older than `before`, and the oldest records above the number `keeping`.
    /// At most the `limit` oldest records are examined.
    case pruneTimeline(before: UnixTime, keeping: Int, limit: Int)
}

/// Identifies a group of changes that were submitted together, and the caller that waits for them.
package enum StoreTicket: Hashable, Sendable {
    case engine(CommitTicket)
    /// The ticket of a service. ``SQLiteStore`` assigns this number.
    case service(UInt64)
}

/// The result of changes that were submitted together.
package struct StoreResult: Hashable, Sendable {
    /// The ticket of the changes; `nil` if no caller waits for them.
    package let ticket: StoreTicket?
    package let isStored: Bool
    /// Whether the rows to change existed, see ``WriteResult/isFound``.
    package var isFound = true
}
