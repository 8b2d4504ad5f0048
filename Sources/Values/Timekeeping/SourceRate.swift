/// How often a second one source may ask for what costs us something (T17.6, T17.7).
///
/// What proves nothing counts four times, and apart from what does: whoever can only invent a source, or has no password,
/// takes nothing from those who have shown one from there.
package struct SourceRate: Sendable {
    private var proved: RateLimit<Int>
    private var unproved: RateLimit<Int>

    /// How many sources are remembered.
    private static let capacity = 65_536
    /// So much may come at once, so that all phones behind one address can come together.
    private static let burst = 10
    private static let weight = 4

    /// - Parameter perSecond: how often a source may ask that proves itself; 0 for any number.
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

    /// How long the source has to wait; `nil` when it may ask now. Counts nothing.
    package func wait(_ source: Int, isProved: Bool, now: Instant) -> Duration? {
        isProved ? proved.wait(for: source, now: now) : unproved.wait(for: source, now: now)
    }

    /// The source has asked, and has proved itself or not.
    ///
    /// - Returns: false when it has asked too often.
    package mutating func asked(_ source: Int, isProved: Bool, now: Instant) -> Bool {
        isProved ? proved.admit(source, now: now) : unproved.admit(source, now: now)
    }

    /// What had proved nothing when it came has proved itself since.
    package mutating func hasProvedItself(_ source: Int, now: Instant) {
        unproved.giveBack(source, now: now)
        _ = proved.admit(source, now: now)
    }
}
