package import Timekeeping

/// Measured durations of one kind, from which percentiles are computed.
package struct Samples: Sendable {
    private var values: [Duration] = []

    package init() {}

    package mutating func add(_ value: Duration) { values.append(value) }

    package mutating func add(from start: Instant, to end: Instant) { add(end - start) }

    package var count: Int { values.count }

    /// Returns the percentile: `percent` per cent of the durations are at most this long; zero without durations.
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
    /// The middle value, or the mean of the two middle values; 0 without values.
    package var median: Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        let middle = count / 2
        return count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}
