package import ProxyCore
package import PushDelivery
package import Timekeeping

/// One change to write. Its byte strings must be compacted.
package enum RowChange: Sendable {
    case engine(EngineChange)
    case timeline(TimelineChange)
    case service(ServiceChange)
    /// Calls that are over and whose records were dropped. Their rows in the table of open calls are removed.
    case callsClosed([RecordID])
    /// Deletes records of the timeline that began before this time, and the oldest ones beyond this number. Examines at
    /// most the `limit` oldest records.
    case pruneTimeline(before: UnixTime, keeping: Int, limit: Int)
}

/// Names a group of changes that were submitted together, and who waits for them.
package enum StoreTicket: Hashable, Sendable {
    case engine(CommitTicket)
    /// The ticket of a service. ``SQLiteStore`` assigns the number.
    case service(UInt64)
}

/// The result of changes that were submitted together.
package struct StoreResult: Hashable, Sendable {
    /// `nil` for changes without a ticket.
    package let ticket: StoreTicket?
    package let isStored: Bool
    /// See ``WriteResult``.
    package var isFound = true
}
