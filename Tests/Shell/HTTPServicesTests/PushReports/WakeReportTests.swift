import JSON
import PushDelivery
import Testing

@testable import HTTPServices
@testable import Persistence

@Suite("The answer of the report of wakes")
struct WakeReportTests {
    private func counts(came: [Int64] = [], never: Int = 0, callerGaveUp: Int = 0, endedOtherwise: Int = 0)
        -> WakeCounts
    {
        var counts = WakeCounts()
        for time in came { counts.add(.came(milliseconds: time)) }
        for _ in 0..<never { counts.add(.never) }
        for _ in 0..<callerGaveUp { counts.add(.callerGaveUp) }
        for _ in 0..<endedOtherwise { counts.add(.endedOtherwise) }
        return counts
    }

    private func report(_ names: [String]) -> WakeReport {
        WakeReport(
            names.map {
                WakeRow(
                    name: $0,
                    counts: counts(
                        came: [1000, 5000, 5001, 10_001, 30_001], never: 2, callerGaveUp: 3, endedOtherwise: 1))
            }, by: .app, days: 7)
    }

    @Test func `rows and their total as JSON`() throws {
        let json = try JSONValue(of: report(["fcm", "apns"]))
        #expect(json["days"]?.integer == 7 && json["by"]?.string == "app")
        let row = try #require(json["rows"]?.array?.first)
        let figures =
            [
                ("pushes", 11), ("came", 5), ("within5", 2), ("within10", 3), ("within30", 4), ("never", 2),
                ("callerGaveUp", 3), ("endedOtherwise", 1), ("p50", 6300), ("p95", 40_000), ("p99", 40_000),
            ] as [(String, Int64)]
        for (name, value) in figures { #expect(row[name]?.integer == value, "\(name)") }
        #expect(row["name"]?.string == "fcm")
        #expect(json["total"]?["pushes"]?.integer == 22 && json["total"]?["name"]?.string == "all")
    }

    @Test func `a time is missing if no phone came`() throws {
        let report = WakeReport([WakeRow(name: "fcm", counts: counts(never: 1))], by: .provider, days: 1)
        let json = try JSONValue(of: report)
        #expect(json["rows"]?.array?.first?["p50"] == nil)
        #expect(String(decoding: report.csv, as: UTF8.self).hasSuffix("\r\nfcm,1,0,0,0,0,1,0,0,,,\r\n"))
        #expect(try JSONValue(of: WakeReport([], by: .app, days: 1))["rows"]?.array == [])
    }

    @Test func `CSV has a header, quotes, and no formula`() {
        let lines = String(decoding: report(["fcm", "=1+1", "@x", "a,\"b"]).csv, as: UTF8.self)
            .split(separator: "\r\n", omittingEmptySubsequences: false)
        let figures = "11,5,2,3,4,2,3,1,6300,40000,40000"
        #expect(
            lines == [
                "app,pushes,came,within5,within10,within30,never,callerGaveUp,endedOtherwise,p50,p95,p99",
                "fcm,\(figures)", "'=1+1,\(figures)", "'@x,\(figures)", "\"a,\"\"b\",\(figures)", "",
            ])
    }
}
