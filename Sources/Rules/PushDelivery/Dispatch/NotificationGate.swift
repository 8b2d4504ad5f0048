import Collections

/// Limits the number of notifications in a server's queue, so that a call never waits for more than this number.
///
/// The gate performs no input or output: it receives events, and returns the notifications that may enter the queue.
package struct NotificationGate: Sendable {
    /// The number of notifications in the queue, whether they wait or are in flight.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// Creates a gate for a server with these limits. Notifications get a quarter of the parallel requests, and at
    /// least one.
    package init(_ limits: ProviderLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// Handles a new notification. Returns whether it may enter the queue now; otherwise it waits at the gate.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inside >= limit else {
            inside += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// Notes that a notification has left the queue.
    package mutating func left() { inside = max(0, inside - 1) }

    /// Returns the next notification that may enter the queue, and counts it as ``inside``. The caller of this method
    /// repeats the call until the result is `nil`.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
