/// The number of phones that came after a push, by the time that the phones took, in fixed classes. The classes never
/// change, so counts of several days and apps can be added.
package struct WakeTimes: Hashable, Sendable {
    /// The longest time of each class in milliseconds. From 300 ms on, the end of a class is at most a third above its
    /// beginning. The times in the report (5, 10 and 30 s) are ends of classes.
    package static let bounds: [Int64] = [
        100, 200, 300, 400, 500, 630, 800, 1000, 1250, 1600, 2000, 2500, 3000, 4000, 5000, 6300, 8000, 10_000, 12_500,
        16_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000,
    ]

    /// The number of wakes in each class; the last class has all longer times.
    package private(set) var counts: [Int64]

    package init() { counts = Array(repeating: 0, count: Self.bounds.count + 1) }

    /// Creates the counts in the order of the classes; `nil` for a wrong number of counts or a negative count.
    package init?(counts: [Int64]) {
        guard counts.count == Self.bounds.count + 1, counts.allSatisfy({ $0 >= 0 }) else { return nil }
        self.counts = counts
    }

    package mutating func add(milliseconds: Int64) {
        counts[Self.bounds.firstIndex { milliseconds <= $0 } ?? Self.bounds.count] &+= 1
    }

    package mutating func merge(_ other: WakeTimes) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }

    package var total: Int64 { counts.reduce(0, &+) }

    /// The number of wakes up to `milliseconds`; this value must be the end of a class.
    package func within(milliseconds: Int64) -> Int64 {
        zip(Self.bounds, counts).reduce(0) { $1.0 <= milliseconds ? $0 &+ $1.1 : $0 }
    }

    /// The time in milliseconds that the given percentage of wakes does not exceed; `nil` without wakes.
    ///
    /// The quantile is interpolated inside its class of wake times. Wakes in the last class are treated as the
    /// beginning of the class.
    package func quantile(percent: Int64) -> Int64? {
        let total = total
        guard total > 0 else { return nil }
        let rank = max(1, (total.multipliedReportingOverflow(by: percent).partialValue &+ 99) / 100)
        var (before, low): (Int64, Int64) = (0, 0)
        for (count, bound) in zip(counts, Self.bounds) {
            if before &+ count >= rank {
                return low + Int64(Double(bound - low) * Double(rank - before) / Double(count))
            }
            (before, low) = (before &+ count, bound)
        }
        return low
    }
}

/// The counts of the results of pushes about calls.
package struct WakeCounts: Hashable, Sendable {
    package private(set) var times = WakeTimes()
    package private(set) var never: Int64 = 0
    package private(set) var callerGaveUp: Int64 = 0
    package private(set) var endedOtherwise: Int64 = 0

    package init() {}

    package init(times: WakeTimes, never: Int64, callerGaveUp: Int64, endedOtherwise: Int64) {
        (self.times, self.never) = (times, never)
        (self.callerGaveUp, self.endedOtherwise) = (callerGaveUp, endedOtherwise)
    }

    package mutating func add(_ outcome: WakeOutcome) {
        switch outcome {
        case .came(let milliseconds): times.add(milliseconds: milliseconds)
        case .never: never &+= 1
        case .callerGaveUp: callerGaveUp &+= 1
        case .endedOtherwise: endedOtherwise &+= 1
        }
    }

    package mutating func merge(_ other: WakeCounts) {
        times.merge(other.times)
        never &+= other.never
        callerGaveUp &+= other.callerGaveUp
        endedOtherwise &+= other.endedOtherwise
    }

    package var came: Int64 { times.total }

    /// The number of all counted pushes.
    package var pushes: Int64 { came &+ never &+ callerGaveUp &+ endedOtherwise }
}
