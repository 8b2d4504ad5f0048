package import Collections
package import Timekeeping

/// An app's report about a push that it received. The reports are independent of each other: a push can be read and
/// never followed.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The app has received the push.
    case received
    /// The user tapped the push to open its destination.
    case followed
    /// The user has read the push, so it no longer counts in the badge.
    case read
}

/// The app's reports about one push on one device, with the time of each first report.
package struct PushMarks: Hashable, Sendable {
    @PackedOptional package var received: UnixTime?
    @PackedOptional package var followed: UnixTime?
    @PackedOptional package var read: UnixTime?
    /// Whether the push is never counted in the badge, read or unread.
    package var isOutsideBadge = false

    package init() {}

    /// Records the time of a report, unless the same report came before.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
