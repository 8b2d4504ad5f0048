/// The devices of a new call that ring at once, later, or not at all.
package struct RingPlan {
    /// The turns of the devices; `nil` if all devices ring at the same time.
    package let turns: RingTurns?
    /// When the user's do-not-disturb ends; `nil` if the user's devices ring for the caller.
    package let silence: DoNotDisturb.End?

    package init(turns: RingTurns? = nil, silence: DoNotDisturb.End? = nil) {
        self.turns = turns
        self.silence = silence
    }

    /// Whether all devices ring at once.
    package var isUsual: Bool { turns == nil && silence == nil }

    /// Whether the device of a branch does not ring at once.
    package func withholds(_ branch: Int) -> Bool {
        silence != nil || turns?.start(of: branch).map { $0 > .zero } == true
    }

    /// The time after which the last devices begin to ring.
    package var lastStart: Duration { turns?.lastStart ?? .zero }
}
