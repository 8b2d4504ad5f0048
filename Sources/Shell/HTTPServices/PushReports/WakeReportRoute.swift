import HTTPSemantics
import HTTPServer
package import Persistence
package import Reactor
import Timekeeping

/// The HTTP route of the report of wakes, on the API and for operators.
package struct WakeReportRoute: Sendable {
    private let store: any ProxyStore
    private let loop: EventLoop

    package init(store: any ProxyStore, loop: EventLoop) { (self.store, self.loop) = (store, loop) }

    package func register(in router: inout ServiceRouter, scope: APIScope) {
        router.add(
            "GET", "/v1/reports/wakes", scope: scope, domains: .byDomain, described: .wakes
        ) { [store, loop] call throws(ServiceProblem) in
            let days = try call.number("days", in: WakeReport.dayLimits) ?? WakeReport.defaultDays
            let today = loop.moment.date.seconds / 86_400
            var question = WakeQuestion(days: (today - days + 1)...today)
            if let text = call.request.query("by") {
                guard let by = WakeQuestion.Grouping(rawValue: text) else {
                    throw ServiceProblem(400, "by must be provider, app or system")
                }
                question.by = by
            }
            question.domains = call.domains.hosts(named: call.request.query("domain"))
            let isCSV =
                switch call.request.query("format") {
                case "csv": true
                case "json": false
                case nil: (call.request.field("accept") ?? "").lowercased().contains("text/csv")
                case _?: throw ServiceProblem(400, "format must be json or csv")
                }
            call.askStore { [question] in
                let report = WakeReport(try await store.wakes(question), by: question.by, days: days)
                let field = HTTPField("Cache-Control", "no-store")
                guard isCSV else { return call.answer(report, fields: [field]) }
                var response = HTTPResponse(type: "text/csv; charset=utf-8; header=present", body: report.csv)
                response.fields.append(field)
                call.answer(response)
            }
        }
    }
}

extension RouteDescription {
    fileprivate static let wakes = RouteDescription(
        "getWakeReport", "How many phones came after a push about a call, and after which time",
        detail: "Times are in milliseconds from the request of the push. Only calls that have ended count."
    )
    .query(
        "days", "The number of days, the last of which is today in UTC. Default: \(WakeReport.defaultDays).",
        .number(WakeReport.dayLimits)
    )
    .query("by", "One row for each. Default: provider.", .choice(WakeReport.groupings))
    .query("domain", "Only pushes to users of this domain. Default: all domains of the key.")
    .query("format", "The form of the answer. Default: from the Accept field.", .choice(["json", "csv"]))
    .answer(200, "Rows", WakeReport.self)
    .answer(200, "Rows", .text, type: "text/csv").notRead()
}
