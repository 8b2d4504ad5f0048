package import Collections
package import Timekeeping

/// What an app says of a push that it got. Each is independent of the others: a push can be read and never followed.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The push arrived at the app.
    case received
    /// The user tapped it to reach what it leads to.
    case followed
    /// The user has read it, so that it does not count in the badge any more.
    case read
}

/// What was said of one push on one device, and when it was said first.
package struct PushMarks: Hashable, Sendable {
    @Packed package var received: UnixTime?
    @Packed package var followed: UnixTime?
    @Packed package var read: UnixTime?
    /// It never counts in the badge, read or not.
    package var isOutsideBadge = false

    package init() {}

    /// Notes when something was said, unless it was said before.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
