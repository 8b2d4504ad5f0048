package import Collections
package import Timekeeping

/// An app's report about a received push. Each mark is independent of the others: a push can be read and never
/// followed.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The push arrived at the app.
    case received
    /// The user tapped it to open its destination.
    case followed
    /// The user has read it, so it no longer counts in the badge.
    case read
}

/// The reports about one push on one device, and when each was first made.
package struct PushMarks: Hashable, Sendable {
    @Packed package var received: UnixTime?
    @Packed package var followed: UnixTime?
    @Packed package var read: UnixTime?
    /// It never counts in the badge, read or unread.
    package var isOutsideBadge = false

    package init() {}

    /// Records the time of a report, unless it was reported before.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
