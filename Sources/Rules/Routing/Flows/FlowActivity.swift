package import Addressing
package import Timekeeping

/// When each flow last showed life. Two tables take turns: the older table is dropped as a whole, so that old entries
/// need not be searched for.
package struct FlowActivity: Sendable {
    let span: Duration
    private var recent: [Flow: Instant] = [:]
    private var older: [Flow: Instant] = [:]
    private var turnsAt = Instant.distantPast

    /// How many flows a table remembers. Anybody can show life, so a full table takes no further flows.
    private static let limit = 500_000

    /// - Parameter span: how long a sign of life counts.
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

    /// Forgets a flow whose connection has ended.
    package mutating func forgot(_ flow: Flow) {
        recent[flow] = nil
        older[flow] = nil
    }
}
