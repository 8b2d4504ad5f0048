package import ProxyCore
package import Timekeeping

/// One change to write. Its byte strings must be compacted.
package enum RowChange: Sendable {
    case engine(EngineChange)
    case timeline(TimelineChange)
    case service(ServiceChange)
    /// Forgets records of the timeline that were begun before that, and the oldest beyond that many; looks at no more
    /// than the `limit` oldest.
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
