import Collections

/// Limits how many notifications are in a server's queue at a time, so that a call never waits behind more than that.
///
/// It does no input or output itself: it is told what happens, and says who may enter the queue.
package struct NotificationGate: Sendable {
    /// How many notifications are in the queue: they wait there or are under way.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// Notifications get a quarter of the requests that may be under way, and at least one.
    package init(_ limits: PushLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// A notification wants to enter the queue. Returns whether it may do so now; otherwise it waits here.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inside >= limit else {
            inside += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// A notification that had entered the queue has left it.
    package mutating func left() { inside = max(0, inside - 1) }

    /// The next notification that may enter, which from then on counts as being in the queue. Ask until it returns
    /// `nil`.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
