import Timekeeping

/// All metrics that one event loop counts; only the loop's thread uses them. Counting needs no lock and no look-up by
/// name. For a report, the metric sets of several loops are merged into one set.
package struct CounterSet: Hashable, Sendable {
    private var counters = [UInt64](repeating: 0, count: Counter.allCases.count)
    private var gauges = [Int](repeating: 0, count: Gauge.allCases.count)
    private var timings = [Histogram](repeating: Histogram(), count: Timing.allCases.count)

    package init() {}

    package mutating func count(_ counter: Counter, by amount: UInt64 = 1) { counters[counter.rawValue] &+= amount }
    package mutating func set(_ gauge: Gauge, to value: Int) { gauges[gauge.rawValue] = value }
    package mutating func observe(_ timing: Timing, _ duration: Duration) { timings[timing.rawValue].add(duration) }

    package subscript(counter: Counter) -> UInt64 { counters[counter.rawValue] }
    package subscript(gauge: Gauge) -> Int { gauges[gauge.rawValue] }
    package subscript(timing: Timing) -> Histogram { timings[timing.rawValue] }

    /// Adds the metrics of another loop; gauges are summed like counters.
    package mutating func merge(_ other: CounterSet) {
        for counter in Counter.allCases { count(counter, by: other[counter]) }
        for gauge in Gauge.allCases { set(gauge, to: self[gauge] &+ other[gauge]) }
        for timing in Timing.allCases { timings[timing.rawValue].merge(other[timing]) }
    }
}

/// A histogram of durations from 0.1 ms to 14 minutes, in 24 slots. Each slot is twice as wide as the slot before.
package struct Histogram: Hashable, Sendable {
    static let slots = 24
    private var counts = [UInt64](repeating: 0, count: Self.slots + 1)
    package private(set) var total: UInt64 = 0
    package private(set) var sum = Duration.zero

    package init() {}

    package mutating func add(_ duration: Duration) {
        // The duration as a multiple of the first slot's width, rounded down. The number of bits of `bounds` is the
        // index of the slot.
        let bounds = (max(1, duration.nanoseconds) - 1) / Self.firstBound.nanoseconds
        counts[min(Int64.bitWidth - bounds.leadingZeroBitCount, Self.slots)] &+= 1
        total &+= 1
        // At most one day is added, so that a wrong clock cannot make the sum overflow.
        sum += min(max(duration, .zero), .seconds(86_400))
    }

    package mutating func merge(_ other: Histogram) {
        for slot in counts.indices { counts[slot] &+= other.counts[slot] }
        total &+= other.total
        sum += other.sum
    }

    /// The durations added since an earlier state of the histogram.
    package func since(_ earlier: Histogram) -> Histogram {
        var rest = self
        for slot in counts.indices { rest.counts[slot] = counts[slot] &- min(counts[slot], earlier.counts[slot]) }
        rest.total = total &- min(total, earlier.total)
        rest.sum = max(.zero, sum - earlier.sum)
        return rest
    }

    /// The quantile: the given share of all durations is at most this long; `nil` without durations. The function
    /// assumes that the durations in a slot of the histogram are evenly spread.
    package func quantile(_ share: Double) -> Duration? {
        guard total > 0 else { return nil }
        let wanted = max(1, share * Double(total))
        var (sum, bound) = (0.0, Self.firstBound)
        for (slot, count) in counts.enumerated() where count > 0 {
            guard sum + Double(count) >= wanted || slot == Self.slots else {
                sum += Double(count)
                continue
            }
            for _ in 0..<slot { bound *= 2 }
            let lower = slot == 0 ? .zero : bound / 2
            guard slot < Self.slots else { return lower }
            return lower + (bound - lower) * ((wanted - sum) / Double(count))
        }
        return nil
    }

    /// The upper bound of each slot, with the number of durations that do not exceed it.
    var cumulative: [(Duration, UInt64)] {
        var sum: UInt64 = 0
        var bound = Self.firstBound
        return counts.prefix(Self.slots).map { count in
            sum &+= count
            defer { bound *= 2 }
            return (bound, sum)
        }
    }

    private static let firstBound = Duration.microseconds(100)
}
