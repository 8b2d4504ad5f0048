import PushDelivery
import Telemetry
import Timekeeping

/// The durations measured in one second or minute, from which quantiles are computed.
struct PlotTimes {
    enum Series: Int, CaseIterable {
        case inviteToPush, pushToRegister, registerToAnswer, commit

        var name: String {
            switch self {
            case .inviteToPush: "inviteToPush"
            case .pushToRegister: "pushToRegister"
            case .registerToAnswer: "registerToAnswer"
            case .commit: "commit"
            }
        }
    }

    private var histograms = [Histogram](repeating: Histogram(), count: Series.allCases.count)

    subscript(series: Series) -> Histogram { histograms[series.rawValue] }

    mutating func add(_ duration: Duration, to series: Series) { histograms[series.rawValue].add(duration) }

    mutating func merge(_ histogram: Histogram, into series: Series) { histograms[series.rawValue].merge(histogram) }

    mutating func merge(_ other: PlotTimes) {
        for series in Series.allCases { merge(other[series], into: series) }
    }

    /// Adds the steps of a call that woke a phone.
    mutating func add(_ record: TimelineRecord) {
        guard record.kind == .call, let sent = record.steps.sent else { return }
        add(.milliseconds(Int64(sent)), to: .inviteToPush)
        guard let registered = record.steps.registered else { return }
        add(.milliseconds(Int64(registered) - Int64(sent)), to: .pushToRegister)
        guard record.end == .answered, let ended = record.steps.ended else { return }
        add(.milliseconds(Int64(ended) - Int64(registered)), to: .registerToAnswer)
    }

    static let quantiles = [0.5, 0.95, 0.99]
    static let quantileNames = ["p50", "p95", "p99"]
}
