import Addressing
import Timekeeping

/// When flows last showed life, for as long as that matters: two tables that take turns, so that nothing has to be looked
/// for to be forgotten.
struct FlowLife: Sendable {
    private let span: Duration
    private var recent: [Flow: Instant] = [:]
    private var older: [Flow: Instant] = [:]
    private var turnsAt = Instant.distantPast

    /// How many flows a table remembers. Anybody can show life: when a table is full, it takes no further flows.
    private static let limit = 500_000

    /// - Parameter span: how long a sign of life counts.
    init(span: Duration) { self.span = span }

    mutating func noted(on flow: Flow, now: Instant) {
        if now >= turnsAt {
            older = now < turnsAt + span ? recent : [:]
            recent = [:]
            turnsAt = now + span
        }
        if recent.count < Self.limit || recent[flow] != nil { recent[flow] = now }
    }

    func wasAlive(_ flow: Flow, now: Instant) -> Bool {
        guard let last = recent[flow] ?? older[flow] else { return false }
        return now - last < span
    }

    /// Forgets a flow whose connection has ended.
    mutating func forgot(_ flow: Flow) {
        recent[flow] = nil
        older[flow] = nil
    }
}
