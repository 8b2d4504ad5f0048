import Foundation

/// The random number generator SplitMix64, with the same numbers for a seed on all machines.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    /// Uses the test run's seed: 1, or the value of `SIPPUSHD_TEST_SEED`, which `etc/nightly` sets.
    package init() {
        self.init(seed: ProcessInfo.processInfo.environment["SIPPUSHD_TEST_SEED"].flatMap { UInt64($0) } ?? 1)
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }

    package mutating func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &self) < probability }

    package mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) } }

    /// Returns a random duration in the given range of milliseconds.
    package mutating func milliseconds(_ range: ClosedRange<Int64>) -> Duration {
        .milliseconds(Int64.random(in: range, using: &self))
    }
}
