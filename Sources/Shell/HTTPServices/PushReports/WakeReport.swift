import Persistence
import PushDelivery

/// The report of wakes: how many phones came after a push about a call, and after which time. Times in the report of
/// wakes are in milliseconds.
package struct WakeReport: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "by": .choice(groupings),
        "total": .words("All rows together."),
    ]

    /// The number of days, the last of which is today in UTC.
    package let days: Int64
    package let by: String
    package let rows: [Row]
    package let total: Row

    package struct Row: Codable, Sendable, DescribedBody {
        package static let notes: [String: JSONSchema] = [
            "name": .words("The provider, the app or the system; `all` in the total."),
            "pushes": .words("The first pushes of calls that the provider accepted: the sum of the outcomes."),
            "came": .words("The phone came."),
            "never": .words("The call waited for the phone in vain."),
            "callerGaveUp": .words("The caller gave up within 30 s, before the phone came."),
            "endedOtherwise": .words("The wait ended within 30 s for another reason, before the phone came."),
            "p50": .words("Half of the phones that came took at most this time; missing if no phone came."),
        ]

        package let name: String
        package let pushes: Int64
        package let came: Int64
        package let within5: Int64
        package let within10: Int64
        package let within30: Int64
        package let never: Int64
        package let callerGaveUp: Int64
        package let endedOtherwise: Int64
        package let p50: Int64?
        package let p95: Int64?
        package let p99: Int64?
    }
}

extension WakeReport {
    package static let dayLimits: ClosedRange<Int64> = 1...400
    package static let defaultDays: Int64 = 30
    package static let groupings = WakeQuestion.Grouping.allCases.map(\.rawValue)

    init(_ rows: [WakeRow], by grouping: WakeQuestion.Grouping, days: Int64) {
        self.days = days
        by = grouping.rawValue
        self.rows = rows.map { Row($0.name, $0.counts) }
        var counts = WakeCounts()
        for row in rows { counts.merge(row.counts) }
        total = Row("all", counts)
    }

    /// Writes the rows without the total as CSV with a header line (RFC 4180).
    var csv: [UInt8] {
        let names = [
            "pushes", "came", "within5", "within10", "within30", "never", "callerGaveUp", "endedOtherwise", "p50",
            "p95",
            "p99",
        ]
        var out = ([by] + names).joined(separator: ",") + "\r\n"
        for row in rows {
            let counts = [
                row.pushes, row.came, row.within5, row.within10, row.within30, row.never, row.callerGaveUp,
                row.endedOtherwise,
            ]
            let times = [row.p50, row.p95, row.p99].map { $0.map { "\($0)" } ?? "" }
            out +=
                ([PushStatistics.csvField(row.name)] + counts.map { "\($0)" } + times).joined(separator: ",") + "\r\n"
        }
        return Array(out.utf8)
    }
}

extension WakeReport.Row {
    init(_ name: String, _ counts: WakeCounts) {
        let times = counts.times
        self.name = name
        (pushes, came, never) = (counts.pushes, counts.came, counts.never)
        (callerGaveUp, endedOtherwise) = (counts.callerGaveUp, counts.endedOtherwise)
        within5 = times.within(milliseconds: 5000)
        within10 = times.within(milliseconds: 10_000)
        within30 = times.within(milliseconds: 30_000)
        p50 = times.quantile(percent: 50)
        p95 = times.quantile(percent: 95)
        p99 = times.quantile(percent: 99)
    }
}
