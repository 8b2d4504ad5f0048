import Collections

/// Limits the number of notifications in a push server's queue, so that a push for a call never waits behind many
/// notifications.
///
/// A ``NotificationGate`` does no input or output: its methods take events and return the notifications to move into
/// the queue.
package struct NotificationGate: Sendable {
    /// The number of notifications in the queue, waiting or in flight.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// Creates the gate of a server with the given limits. Notifications may use a quarter of the parallel requests to
    /// a server, and at least one request.
    package init(_ limits: ProviderLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// Handles a new notification for the server. The method ``arrived(_:)`` returns true if the notification enters
    /// the queue now, and false if the notification waits.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inside >= limit else {
            inside += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// Notes that a notification has left the server's queue.
    package mutating func left() { inside = max(0, inside - 1) }

    /// Returns the next notification to put into the queue, and counts the notification in ``inside``. The method
    /// ``next()`` returns `nil` if no notification waits, or the queue has the maximum number of notifications.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
