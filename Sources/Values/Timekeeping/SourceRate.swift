/// Limits how many expensive requests a source address can send per second (T17.6, T17.7).
///
/// Unauthenticated requests have a limit of their own, a quarter of the limit for authenticated requests. A peer that
/// forges a source address, or has no password, cannot use up the limit of authenticated peers at this address.
package struct SourceRate: Sendable {
    private var proved: RateLimit<Int>
    private var unproved: RateLimit<Int>

    /// The maximum number of sources whose requests are counted.
    private static let capacity = 65_536
    /// The span of the limit in seconds. All requests that the limit allows in a span may arrive at the same moment.
    /// With a span of ten seconds, all phones behind one address can reconnect together.
    private static let burst = 10
    private static let weight = 4

    /// Makes a rate limit.
    ///
    /// - Parameter perSecond: the limit for authenticated requests; 0 means no limit.
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

    /// How long the source must wait before its next request; `nil` if the source need not wait.
    /// ``wait(_:isProved:now:)`` counts no request.
    package func wait(_ source: Int, isProved: Bool, now: Instant) -> Duration? {
        isProved ? proved.wait(for: source, now: now) : unproved.wait(for: source, now: now)
    }

    /// Counts a request of the source, unless it exceeds the limit.
    ///
    /// - Returns: false if the request exceeds the limit.
    package mutating func asked(_ source: Int, isProved: Bool, now: Instant) -> Bool {
        isProved ? proved.admit(source, now: now) : unproved.admit(source, now: now)
    }

    /// Moves one counted request of the source from the unauthenticated to the authenticated requests.
    /// ``hasProvedItself(_:now:)`` is called when a counted request has been authenticated.
    package mutating func hasProvedItself(_ source: Int, now: Instant) {
        unproved.giveBack(source, now: now)
        _ = proved.admit(source, now: now)
    }
}
