/// Limits how many expensive requests a second one source may send (T17.6, T17.7).
///
/// Unauthenticated requests count four times, and separately from authenticated ones: a peer with a forged source or
/// without a password takes nothing from authenticated peers at that source.
package struct SourceRate: Sendable {
    private var proved: RateLimit<Int>
    private var unproved: RateLimit<Int>

    /// The maximum number of stored sources.
    private static let capacity = 65_536
    /// The number of requests that may come at once, so that all phones behind one address can reconnect together.
    private static let burst = 10
    private static let weight = 4

    /// - Parameter perSecond: the limit of an authenticated source; 0 for no limit.
    package init(perSecond: Int) {
        proved = RateLimit(perSecond * Self.burst, in: .seconds(Self.burst), capacity: Self.capacity)
        unproved = RateLimit(
            Self.unproved(perSecond) * Self.burst, in: .seconds(Self.burst), capacity: Self.capacity)
    }

    private static func unproved(_ perSecond: Int) -> Int { perSecond > 0 ? max(1, perSecond / weight) : 0 }

    package mutating func changed(perSecond: Int) {
        proved.limit = perSecond * Self.burst
        unproved.limit = Self.unproved(perSecond) * Self.burst
    }

    package var isOn: Bool { proved.limit > 0 }

    /// How long the source must wait; `nil` if it may send now. Counts nothing.
    package func wait(_ source: Int, isProved: Bool, now: Instant) -> Duration? {
        isProved ? proved.wait(for: source, now: now) : unproved.wait(for: source, now: now)
    }

    /// The source sent a request, authenticated or not.
    ///
    /// - Returns: false if it exceeded the limit.
    package mutating func asked(_ source: Int, isProved: Bool, now: Instant) -> Bool {
        isProved ? proved.admit(source, now: now) : unproved.admit(source, now: now)
    }

    /// A request that was unauthenticated when it arrived has been authenticated since.
    package mutating func hasProvedItself(_ source: Int, now: Instant) {
        unproved.giveBack(source, now: now)
        _ = proved.admit(source, now: now)
    }
}
