import Timekeeping

/// Limits the number of requests to one server in a second. All requests of a second may start at the same time.
struct PushPace: Sendable {
    private let cost: Duration
    /// The moment from which earlier requests no longer reduce the rate.
    private var paidOff = Instant.distantPast

    private static let span: Duration = .seconds(1)

    /// Makes a limit of `rate` requests in a second.
    init(_ rate: Int) { cost = Self.span / max(rate, 1) }

    /// The time from which the next request may start.
    var next: Instant { paidOff == .distantPast ? .distantPast : paidOff + cost + (.zero - Self.span) }

    /// Counts a request, if it may start now.
    mutating func admit(now: Instant) -> Bool {
        guard now >= next else { return false }
        paidOff = max(paidOff, now) + cost
        return true
    }
}
