import Collections

/// Lets so many notifications into a queue at a time: the rest of its places is for calls, which never wait behind more.
///
/// Pure: feed it events; who may go in goes to the queue.
package struct NotificationGate: Sendable {
    /// In the queue: waiting there, or under way.
    package private(set) var inside = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// A quarter of the places, and one at least.
    package init(_ limits: PushLimits) { limit = max(1, limits.requests / 4) }

    package var waiting: Int { queue.count }

    /// Whether it may go in now; otherwise it waits.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inside >= limit else {
            inside += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// One that went in is no longer in the queue.
    package mutating func left() { inside = max(0, inside - 1) }

    /// The next that may go in, which then is in the queue; to be asked until it says `nil`.
    package mutating func next() -> PushID? {
        guard waiting > 0, inside < limit else { return nil }
        inside += 1
        return queue.popFirst()
    }
}
