import Bytes
import Timekeeping

/// The endpoints of user-chosen hosts that answered 429, each with the time until which it gets no push. A 429 limits
/// one endpoint only, so the daemon still sends pushes to the host's other endpoints (T46.6).
struct LimitedEndpoints {
    private var ends: [ByteString: Instant] = [:]

    /// The maximum number of stored endpoints.
    static let capacity = 4096
    /// The pause of an endpoint if the answer names no time.
    static let usualPause: Duration = .seconds(10)

    var count: Int { ends.count }

    /// Notes that an endpoint gets no push until `end`.
    mutating func limit(_ endpoint: ByteString, until end: Instant, now: Instant) {
        if ends.count >= Self.capacity, ends[endpoint] == nil { makeRoom(now: now) }
        ends[endpoint] = max(ends[endpoint] ?? end, end)
    }

    /// The time until which the endpoint gets no push; `nil` if the endpoint can get a push now.
    mutating func end(of endpoint: ByteString, now: Instant) -> Instant? {
        guard let end = ends[endpoint] else { return nil }
        guard now < end else {
            ends[endpoint] = nil
            return nil
        }
        return end
    }

    /// Removes the endpoints whose pause is over. If no pause is over, the half with the shortest pauses is removed, so
    /// that a flood of answers does not start a search each time.
    private mutating func makeRoom(now: Instant) {
        ends = ends.filter { $0.value > now }
        guard ends.count >= Self.capacity else { return }
        let sorted = ends.values.sorted()
        let middle = sorted[sorted.count / 2]
        ends = ends.filter { $0.value > middle }
    }
}
