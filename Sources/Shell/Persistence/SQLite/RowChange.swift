package import ProxyCore
package import Timekeeping

/// One change to write. The byte strings in it must be compacted.
package enum RowChange: Sendable {
    case engine(EngineChange)
    case timeline(TimelineChange)
    case service(ServiceChange)
    /// Forgets records of the timeline that were begun before that, and the oldest beyond that many; looks at no more
    /// than the `limit` oldest.
    case pruneTimeline(before: UnixTime, keeping: Int, limit: Int)
}

/// Names changes that were handed over together, and who waits for them.
package enum StoreTicket: Hashable, Sendable {
    case engine(CommitTicket)
    /// The ticket of a service; ``SQLiteStore`` gives the number.
    case service(UInt64)
}

/// What became of changes that were handed over together.
package struct StoreResult: Hashable, Sendable {
    /// `nil` for changes that nobody waits for.
    package let ticket: StoreTicket?
    package let isStored: Bool
    /// See ``WriteResult``.
    package var isFound = true
}
