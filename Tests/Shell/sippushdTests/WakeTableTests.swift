import Testing

@testable import HTTPServices
@testable import sippushd

@Suite("The table of the report of wakes")
struct WakeTableTests {
    private func row(
        came: Int64, within: (Int64, Int64, Int64), never: Int64, p50: Int64? = nil
    ) -> WakeReport.Row {
        WakeReport.Row(
            name: "fcm", pushes: came + never + 7, came: came, within5: within.0, within10: within.1,
            within30: within.2,
            never: never, callerGaveUp: 4, endedOtherwise: 3, p50: p50, p95: p50, p99: p50)
    }

    @Test func `shares are of the phones that came or never came, and are rounded down`() {
        let cells = WakeTable.cells(of: row(came: 1999, within: (1, 1000, 1999), never: 1, p50: 1949))
        #expect(
            cells == [
                "fcm", "2007", "1999", "0.0%", "50.0%", "99.9%", "1", "4", "3", "1.9 s", "1.9 s", "1.9 s",
            ])
        #expect(WakeTable.cells(of: row(came: 3, within: (3, 3, 3), never: 0))[3] == "100.0%")
    }

    @Test func `without phones there are no shares and times`() {
        let cells = WakeTable.cells(of: row(came: 0, within: (0, 0, 0), never: 0))
        #expect(cells == ["fcm", "7", "0", "-", "-", "-", "0", "4", "3", "-", "-", "-"])
    }
}
