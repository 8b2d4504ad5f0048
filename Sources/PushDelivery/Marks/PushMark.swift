package import Timekeeping

/// What an app says of a push it got. Each is a matter of its own: a push can be read and never followed.
package enum PushMark: String, Hashable, Sendable, CaseIterable {
    /// The push arrived at the app.
    case received
    /// The user tapped it to reach what it leads to.
    case followed
    /// The user knows it; it does not count in the badge any more.
    case read
}

/// What was said of one push on one device, and when it was said first.
package struct PushMarks: Hashable, Sendable {
    package var received, followed, read: UnixTime?
    /// It never counts in the badge, read or not.
    package var isOutsideBadge = false

    package init() {}

    /// The first word counts.
    package mutating func set(_ mark: PushMark, at date: UnixTime) {
        switch mark {
        case .received: received = received ?? date
        case .followed: followed = followed ?? date
        case .read: read = read ?? date
        }
    }
}
