import Collections

/// Lets so many notifications into a lane at a time: the rest of its places is for calls, which never wait behind more.
///
/// Pure: feed it events; who may go in goes to the lane.
package struct NotificationGate: Sendable {
    /// In the lane: waiting there, or under way.
    package private(set) var inLane = 0
    private let limit: Int
    private var queue = Queue<PushID>()

    /// A quarter of the lane's places, and one at least.
    package init(_ lane: LaneSettings) { limit = max(1, lane.requests / 4) }

    package var waiting: Int { queue.count }

    /// Whether it may go in now; otherwise it waits.
    package mutating func arrived(_ id: PushID) -> Bool {
        guard waiting > 0 || inLane >= limit else {
            inLane += 1
            return true
        }
        queue.append(id)
        return false
    }

    /// One that went in is no longer in the lane.
    package mutating func left() { inLane = max(0, inLane - 1) }

    /// The next that may go in, which then is in the lane; to be asked until it says `nil`.
    package mutating func next() -> PushID? {
        guard waiting > 0, inLane < limit else { return nil }
        inLane += 1
        return queue.popFirst()
    }
}
