import Collections

/// Limits how many notifications are in a server's queue, so that the push for a call waits behind few notifications
/// only.
///
/// The gate performs no input or output: it receives events, and returns the notifications to move into the queue.
package struct NotificationGate: Sendable {
    /// The number of notifications in the queue, waiting or in flight.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// Creates the gate of a server with these limits. Notifications can use a quarter of the parallel requests, and at
    /// least one.
    package init(_ limits: ProviderLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// Handles a new notification. Returns true if the notification must be put into the queue now, and false if it
    /// waits.
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

    /// Returns the next notification to put into the queue, and adds it to ``inside``. The result is `nil` if no
    /// notification waits, or if the queue already has as many notifications as allowed.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
