import HTTPServices
import JSON

let reportCommand = Command(
    name: "report",
    summary:
        "Show how many phones came within 5, 10 and 30 seconds after a push about a call, and how many never came.",
    options: [
        Command.configOption,
        Command.Option(
            name: "--days", value: "DAYS",
            help: "The number of days, the last of which is today in UTC: 1 to 400 (default: 30)."),
        Command.Option(
            name: "--by", value: "GROUP",
            help: "The rows of the report: one for each 'provider' (default), 'app' or 'system' (iOS, Android).",
            choices: WakeReport.groupings),
        Command.Option(
            name: "--format", value: "FORMAT", help: "The form of the report: 'table' (default), 'csv' or 'json'.",
            choices: ["table", "csv", "json"]),
    ],
    examples: ["report", "report --days 7 --by system", "report --by app --format csv"]
) { invocation throws(Command.Failure) in
    let days = invocation.value("--days") ?? "\(WakeReport.defaultDays)"
    guard let number = Int64(days), WakeReport.dayLimits.contains(number) else {
        throw .usage("--days takes 1 to \(WakeReport.dayLimits.upperBound)")
    }
    let by = invocation.value("--by") ?? "provider"
    guard WakeReport.groupings.contains(by) else { throw .usage("--by takes provider, app or system") }
    let format = invocation.value("--format") ?? "table"
    guard ["table", "csv", "json"].contains(format) else { throw .usage("--format takes table, csv or json") }
    let control = try ControlConnection(invocation)
    let target = "/v1/reports/wakes?days=\(number)&by=\(by)"
    switch format {
    case "csv": say(text: try await control.text(target + "&format=csv").replacing("\r\n", with: "\n"))
    case "json":
        let report: WakeReport = try await control.get(target)
        guard let json = try? JSONValue(of: report) else {
            throw .failed("the daemon's answer cannot be printed as JSON")
        }
        say(json: String(decoding: json.lines, as: UTF8.self))
    default: WakeTable(try await control.get(target)).show()
    }
}

/// The report of wakes as a table.
struct WakeTable {
    private let report: WakeReport

    init(_ report: WakeReport) { self.report = report }

    func show() {
        guard !report.rows.isEmpty else {
            return say("providers accepted no push about a call in the last \(report.days) days")
        }
        let table = Table(
            (report.by.uppercased(), 24), ("PUSHES", 9), ("CAME", 9), ("5 S", 8), ("10 S", 8), ("30 S", 8),
            ("NEVER", 9),
            ("GAVE UP", 9), ("OTHER", 9), ("50%", 9), ("95%", 9), ("99%", 0))
        for row in report.rows { table.row(Self.cells(of: row)) }
        if report.rows.count > 1 { table.row(Self.cells(of: report.total)) }
    }

    static func cells(of row: WakeReport.Row) -> [String] {
        // Calls that ended early are omitted, because they do not show whether the phone would have come.
        let base = row.came + row.never
        return [row.name, "\(row.pushes)", "\(row.came)"]
            + [row.within5, row.within10, row.within30].map { share($0, of: base) }
            + [row.never, row.callerGaveUp, row.endedOtherwise].map { "\($0)" }
            + [row.p50, row.p95, row.p99].map(seconds)
    }

    /// The share in percent, rounded down, so that 100 % means all.
    private static func share(_ count: Int64, of base: Int64) -> String {
        guard base > 0 else { return "-" }
        let tenths = (Double(count) / Double(base) * 1000).rounded(.down)
        return "\(tenths / 10)%"
    }

    private static func seconds(_ milliseconds: Int64?) -> String {
        guard let milliseconds else { return "-" }
        return "\((Double(milliseconds) / 100).rounded() / 10) s"
    }
}
