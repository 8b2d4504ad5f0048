package import Timekeeping

/// Times of one kind that were measured, for their percentiles.
package struct Samples: Sendable {
    private var values: [Duration] = []

    package init() {}

    package mutating func add(_ value: Duration) { values.append(value) }

    package mutating func add(from start: Instant, to end: Instant) { add(end - start) }

    package var count: Int { values.count }

    /// The smallest value that at least `percent` of 100 values do not exceed; zero when there are none.
    package func percentile(_ percent: Double) -> Duration {
        guard !values.isEmpty else { return .zero }
        let rank = Int((percent / 100 * Double(values.count)).rounded(.up))
        return values.sorted()[min(max(rank, 1), values.count) - 1]
    }
}

extension Duration {
    var milliseconds: Double { self / .milliseconds(1) }
    var seconds: Double { self / .seconds(1) }
}

extension [Double] {
    /// The value in the middle, or between the two in the middle; 0 when there are none.
    package var median: Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        let middle = count / 2
        return count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}
