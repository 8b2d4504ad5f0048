package import Collections
package import Timekeeping

/// A kind of report from an app about a push that it received. The kinds of report are independent of each other: for
/// example, the user can read a push and never follow it.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The app has received the push.
    case received
    /// The user tapped the push, so that the app opened its destination.
    case followed
    /// The user has read the push, so the badge no longer counts the push.
    case read
}

/// The reports about one push from one device, each with the time at which the report first came.
package struct PushMarks: Hashable, Sendable {
    @PackedOptional package var received: UnixTime?
    @PackedOptional package var followed: UnixTime?
    @PackedOptional package var read: UnixTime?
    /// Whether the badge never counts the push, even while the push is unread.
    package var isOutsideBadge = false

    package init() {}

    /// Records the time of a report, unless the app has already sent a report of the same kind.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
