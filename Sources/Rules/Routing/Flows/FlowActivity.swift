package import Addressing
package import Timekeeping

/// The time of the last message on each flow.
///
/// The times of the last messages are in two tables; the older table is dropped as a whole, without a search for old
/// entries.
package struct FlowActivity: Sendable {
    let span: Duration
    private var recent: [Flow: Instant] = [:]
    private var older: [Flow: Instant] = [:]
    private var turnsAt = Instant.distantPast

    /// The maximum number of flows in one table; a full table accepts no further flows, because anybody can send
    /// messages.
    private static let limit = 500_000

    /// Creates empty tables; `span` is how long a message is treated as activity.
    package init(span: Duration) { self.span = span }

    package mutating func noted(on flow: Flow, now: Instant) {
        if now >= turnsAt {
            older = now < turnsAt + span ? recent : [:]
            recent = [:]
            turnsAt = now + span
        }
        if recent.count < Self.limit || recent[flow] != nil { recent[flow] = now }
    }

    package func wasAlive(_ flow: Flow, now: Instant) -> Bool {
        guard let last = recent[flow] ?? older[flow] else { return false }
        return now - last < span
    }

    /// Removes a flow whose connection has ended.
    package mutating func forgot(_ flow: Flow) {
        recent[flow] = nil
        older[flow] = nil
    }
}
