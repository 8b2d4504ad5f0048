import Bytes
import Collections
import HTTPSemantics
import HTTPServer
import JSON
import Persistence
import Timekeeping

/// A request of an application server for push statistics, and the answer as JSON or CSV.
struct PushStatistics: Sendable {
    static let pageLimits = 1...10_000

    var question = StatisticsQuestion()
    /// The domain in the query; `nil` for all domains of the caller.
    var domain: String?
    var isCSV = false
    /// The path of the HTTP route, for links to further pages.
    var path = "/v1/push-statistics"
}

// MARK: The query

extension PushStatistics {
    init(_ call: ServiceCall) throws(ServiceProblem) {
        if let text = call.request.query("by") {
            guard let by = StatisticsQuestion.Grouping(rawValue: text) else {
                throw ServiceProblem(400, "by must be push, app or day")
            }
            question.by = by
        }
        question.from = try Self.date("from", call, isEnd: false) ?? question.from
        question.to = try Self.date("to", call, isEnd: true) ?? question.to
        question.app = call.request.query("app") ?? ""
        domain = call.request.query("domain")
        question.domains = call.domains.hosts(named: domain)
        question.after = try call.cursor()
        question.limit = try call.number("limit", in: Self.pageLimits) ?? question.limit
        switch call.request.query("format") {
        case "csv": isCSV = true
        case "json": isCSV = false
        case nil: isCSV = (call.request.field("accept") ?? "").lowercased().contains("text/csv")
        case _?: throw ServiceProblem(400, "format must be json or csv")
        }
    }

    /// Reads a time in the query: Unix seconds, or a day such as 2026-11-21. A day means the start of the day or, if
    /// `isEnd` is true, the end of the day.
    private static func date(_ name: String, _ call: ServiceCall, isEnd: Bool) throws(ServiceProblem) -> UnixTime? {
        guard let text = call.request.query(name) else { return nil }
        let latest: Int64 = 253_402_300_800  // the year 10000
        if let seconds = Int64(text), (0...latest).contains(seconds) { return UnixTime(seconds: seconds) }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts.map(\.utf8.count) == [4, 2, 2],
            parts.allSatisfy({ $0.utf8.allSatisfy(\.isASCIIDigit) }),
            let year = Int64(parts[0]), year >= 1970,
            let month = Int64(parts[1]), let day = Int64(parts[2])
        else {
            throw ServiceProblem(
                400, "\(name) is not a time", detail: "expected Unix seconds, or a day such as 2026-11-21")
        }
        let days = CivilDate.days(year, month, day)
        let civil = UnixTime(seconds: days * 86_400).civil
        guard civil.year == year, civil.month == month, civil.day == day else {
            throw ServiceProblem(400, "\(name) is not a day of the calendar")
        }
        return UnixTime(seconds: (days + (isEnd ? 1 : 0)) * 86_400)
    }
}

// MARK: Answering

extension PushStatistics {
    func response(_ page: Page<StatisticsRow>) -> HTTPResponse {
        let next = page.next?.number
        var response: HTTPResponse
        if isCSV {
            response = HTTPResponse(type: "text/csv; charset=utf-8; header=present", body: csv(page.elements))
        } else {
            response = HTTPResponse(type: "application/json", body: json(page.elements, next: next))
        }
        response.fields.append(HTTPField("Cache-Control", "no-store"))
        if let next { response.fields.append(HTTPField("Link", "<\(target(after: next))>; rel=\"next\"")) }
        return response
    }

    private func target(after next: UInt64) -> String {
        var target = "\(path)?by=\(question.by.rawValue)&after=\(next)&limit=\(question.limit)"
        if question.from.milliseconds > 0 { target += "&from=\(question.from.seconds)" }
        if question.to.milliseconds < .max { target += "&to=\(question.to.seconds)" }
        if !question.app.isEmpty { target += "&app=" + Self.percentEncoded(question.app) }
        if let domain { target += "&domain=" + Self.percentEncoded(domain) }
        return isCSV ? target + "&format=csv" : target
    }

    private static func percentEncoded(_ text: String) -> String {
        var out = ""
        for byte in text.utf8 {
            let isPlain =
                (byte | 32 >= UInt8(ascii: "a") && byte | 32 <= UInt8(ascii: "z"))
                || (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")) || byte == UInt8(ascii: "-")
                || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
            let digits = String(byte, radix: 16, uppercase: true)
            out += isPlain ? String(Character(Unicode.Scalar(byte))) : "%" + (byte < 16 ? "0" : "") + digits
        }
        return out
    }

    /// Writes `{"by":"day","statistics":[{"day":"2026-11-21","devices":3,…}]}`, with the members in the order shown.
    private func json(_ rows: [StatisticsRow], next: UInt64?) -> [UInt8] {
        let rows = rows.map { row in
            let subject = row.subject.columns.map { name, value -> (String, JSONValue) in
                switch value {
                case .text(let text): (name, .string(text))
                case .number(let number): (name, .number(number))
                }
            }
            return JSONValue.members(subject + zip(StatisticsRow.names, row.figures.map { .number($0) }))
        }
        let page: [(String, JSONValue)] = [("by", .string(question.by.rawValue)), ("statistics", .array(rows))]
        return JSONValue.members(page + (next.map { [("next", .number("\($0)"))] } ?? [])).bytes
    }

    /// Writes the rows as CSV with a header line (RFC 4180).
    private func csv(_ rows: [StatisticsRow]) -> [UInt8] {
        let subject =
            switch question.by {
            case .push: ["push", "date", "kind", "app"]
            case .app: ["app"]
            case .day: ["day"]
            }
        var out = (subject + StatisticsRow.names).joined(separator: ",") + "\r\n"
        for row in rows {
            let fields = row.subject.columns.map { _, value in
                switch value {
                case .text(let text): Self.csvField(text)
                case .number(let number): "\(number)"
                }
            }
            out += (fields + row.figures.map { "\($0)" }).joined(separator: ",") + "\r\n"
        }
        return Array(out.utf8)
    }

    /// Returns a field of the CSV statistics, in quotes if necessary. A field that a spreadsheet would read as a
    /// formula gets an apostrophe, which makes it a text.
    static func csvField(_ text: String) -> String {
        var field = text
        if let first = text.unicodeScalars.first, "=+-@\t\r\n".unicodeScalars.contains(first) { field = "'" + field }
        let mustBeQuoted = field.unicodeScalars.contains { $0 == "," || $0 == "\"" || $0 == "\r" || $0 == "\n" }
        return mustBeQuoted ? "\"" + field.replacing("\"", with: "\"\"") + "\"" : field
    }
}

extension StatisticsRow.Subject {
    enum Value {
        case text(String)
        case number(Int64)
    }

    /// The columns that identify the push, app or day of a row.
    var columns: [(name: String, value: Value)] {
        switch self {
        case .push(let push):
            [
                ("push", .text(push.code)), ("date", .number(push.date)), ("kind", .text(push.kind)),
                ("app", .text(push.app)),
            ]
        case .app(let app): [("app", .text(app))]
        case .day(let day): [("day", .text(UnixTime(seconds: day * 86_400).civil.dayText))]
        }
    }
}
