import Foundation

/// One measured quantity with its value in each round.
package struct Figure: Hashable, Sendable, Encodable {
    package let benchmark: String
    package let name: String
    package let unit: String
    package let median: Double
    package let rounds: [Double]

    package init(_ benchmark: String, _ name: String, _ unit: String, _ rounds: [Double]) {
        self.benchmark = benchmark
        self.name = name
        self.unit = unit
        self.rounds = rounds
        median = rounds.median
    }

    /// The median, such as `12.3`, with the range after several rounds, such as `12.3 (11.8–14.0)`.
    package var text: String {
        guard rounds.count > 1, let least = rounds.min(), let most = rounds.max() else { return Self.text(median) }
        return "\(Self.text(median)) (\(Self.text(least))–\(Self.text(most)))"
    }

    /// Writes a number with its significant digits, such as `21,300`, `16.2` or `0.184`.
    package static func text(_ value: Double) -> String {
        let magnitude = value.magnitude
        let digits = magnitude >= 100 || value == value.rounded() ? 0 : magnitude < 1 ? 3 : magnitude < 10 ? 2 : 1
        return value.formatted(.number.precision(.fractionLength(digits)).locale(Locale(identifier: "en_US")))
    }
}
