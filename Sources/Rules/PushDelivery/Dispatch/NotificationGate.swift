import Collections

/// Limits the number of notifications in a server's queue, so that a call waits only behind these.
///
/// The gate does no input or output itself: it receives events, and returns which notifications may enter the queue.
package struct NotificationGate: Sendable {
    /// The number of notifications in the queue, waiting or in flight.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// A gate for a server with these limits. Notifications get a quarter of the parallel requests, and at least one.
    package init(_ limits: ProviderLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// A notification arrives. Returns whether it may enter the queue now; otherwise it waits here.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inside >= limit else {
            inside += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// A notification left the queue.
    package mutating func left() { inside = max(0, inside - 1) }

    /// The next notification that may enter the queue. From then on it counts in ``inside``. Call this until it returns
    /// `nil`.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
