package import Collections
package import Timekeeping

/// A kind of report from an app about a received push. The kinds of report are independent: for example, the user can
/// read a push without tapping the push.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The app has received the push.
    case received
    /// The user tapped the push, so that the app opened its destination.
    case followed
    /// The user has read the push, so the badge no longer counts the push.
    case read
}

/// The reports about one push from one device, each with the time of its first arrival.
package struct PushMarks: Hashable, Sendable {
    @PackedOptional package var received: UnixTime?
    @PackedOptional package var followed: UnixTime?
    @PackedOptional package var read: UnixTime?
    /// Whether the badge never counts the push, even while the push is unread.
    package var isOutsideBadge = false

    package init() {}

    /// Notes the time of a report, unless the app has sent a report of the same kind before.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
