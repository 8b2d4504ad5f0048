import Addressing
import Bytes
import JSON
import PushDelivery
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import OperatorPage

@Suite("Plots")
struct PlotTests {
    private func record(
        sent: Int32? = 100, registered: Int32? = nil, ended: Int32? = nil, end: TimelineRecord.End? = nil,
        app: String = "apns", answer: TimelineRecord.Answer? = .accepted
    ) -> TimelineRecord {
        var record = TimelineRecord(
            id: RecordID(rawValue: 1), kind: .call, user: ByteString("bob"), host: ByteString("example.net"),
            device: 71, callRef: CallRef(rawValue: 9), callID: ByteString("c"),
            requestedAt: UnixTime(seconds: 0), omission: nil, app: app)
        record.steps.sent = sent
        record.steps.registered = registered
        record.steps.ended = ended
        (record.end, record.answer) = (end, answer)
        return record
    }

    private func values(_ ring: PlotRing) throws -> JSONValue {
        var out: [UInt8] = []
        ring.write(into: &out)
        return try JSONValue(out)
    }

    private func list(_ value: JSONValue?) -> [JSONValue] {
        guard case .array(let list)? = value else { return [] }
        return list
    }

    /// The members of a list, as JSON texts.
    private func texts(_ value: JSONValue?) -> [String] {
        list(value).map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test func `a woken call has three times`() {
        var times = PlotTimes()
        times.add(record(sent: 100, registered: 2100, ended: 5100, end: .answered))
        #expect(times[.inviteToPush].total == 1 && times[.inviteToPush].sum == .milliseconds(100))
        #expect(times[.pushToRegister].sum == .seconds(2))
        #expect(times[.registerToAnswer].sum == .seconds(3))
        times.add(record(sent: 100, registered: 2100, ended: 5100, end: .callerGaveUp))
        #expect(times[.registerToAnswer].total == 1)
        times.add(record(sent: nil, registered: 5))
        #expect(times[.inviteToPush].total == 2 && times[.pushToRegister].total == 2)
    }

    @Test func `quantiles lie inside the slot of their durations`() throws {
        var histogram = Histogram()
        #expect(histogram.quantile(0.5) == nil)
        for _ in 0..<99 { histogram.add(.milliseconds(10)) }
        histogram.add(.seconds(10))
        let median = try #require(histogram.quantile(0.5))
        #expect(median > .microseconds(6400) && median <= .microseconds(12_800))
        #expect(try #require(histogram.quantile(0.99)) <= .microseconds(12_800))
        #expect(try #require(histogram.quantile(1)) > .seconds(5))
        var later = histogram
        later.add(.seconds(100))
        #expect(later.since(histogram).total == 1)
        #expect(try #require(later.since(histogram).quantile(0.5)) > .seconds(50))
    }

    @Test func `a ring has as many values as its time has intervals`() throws {
        var ring = PlotRing(step: 1, capacity: 4)
        #expect(list(try values(ring)["held"]).isEmpty)
        var times = PlotTimes()
        times.add(.milliseconds(10), to: .commit)
        ring.add(held: 1, times, at: 100)
        ring.add(held: 2, PlotTimes(), at: 102)
        #expect(ring.from == 100 && ring.until == 102)
        #expect(texts(try values(ring)["held"]) == ["1", "0", "2"])
        let commits = list(try values(ring)["commit"]?["p99"])
        #expect(commits.count == 3 && commits[0] != .null && commits[1] == .null && commits[2] == .null)
        // The clock was set back.
        ring.add(held: 9, PlotTimes(), at: 101)
        #expect(texts(try values(ring)["held"]) == ["1", "0", "2"])
        for second in 103...106 { ring.add(held: second, PlotTimes(), at: Int64(second)) }
        #expect(ring.from == 103 && ring.until == 106)
        #expect(texts(try values(ring)["held"]) == ["103", "104", "105", "106"])
        // After a long gap without values, no old value remains.
        ring.add(held: 7, PlotTimes(), at: 1_000_000)
        #expect(ring.from == 1_000_000)
        #expect(texts(try values(ring)["held"]) == ["7"])
    }

    @Test func `minutes are counted by provider and forgotten after a day`() {
        var shares = WakeShares()
        shares.add(record(sent: 0, registered: 4000), at: 60)
        shares.add(record(sent: 1000, registered: 10_000), at: 60)
        shares.add(record(sent: 0, registered: 29_000), at: 120)
        shares.add(record(sent: 0), at: 120)
        shares.add(record(sent: 0, app: "fcm/other"), at: 120)
        shares.add(record(sent: 0, answer: .tokenDead), at: 120)
        shares.add(record(sent: nil), at: 120)
        var totals = shares.totals(of: 1440)
        #expect(totals.map(\.provider) == [.apns, .fcm])
        #expect(totals.first?.counts == WakeShares.Counts(pushes: 4, within5: 1, within10: 2, within30: 3))
        #expect(totals.last?.counts == WakeShares.Counts(pushes: 1))
        #expect(shares.totals(of: 1).first?.counts.pushes == 2)
        shares.advance(to: 60 + 1440 * 60)
        totals = shares.totals(of: 1440)
        #expect(totals.first?.counts.pushes == 2)
        shares.advance(to: 60 + 3 * 1440 * 60)
        #expect(shares.totals(of: 1440).allSatisfy { $0.counts.pushes == 0 })
    }

    @Test func `the answer is JSON with equally long lists`() throws {
        var ring = PlotRing(step: 60, capacity: 1440)
        for minute in 0..<2000 { ring.add(held: minute, PlotTimes(), at: Int64(minute) * 60) }
        let json = try JSONValue(
            PlotRecorder.bytes("day", ring, [(.apns, WakeShares.Counts(pushes: 3, within5: 1))]))
        #expect(json["span"] == "day" && json["until"]?.bytes == Array("119940".utf8))
        #expect(list(json["series"]?["held"]).count == 1440)
        for series in PlotTimes.Series.allCases {
            for quantile in PlotTimes.quantileNames {
                #expect(list(json["series"]?[series.name]?[quantile]).count == 1440)
            }
        }
        #expect(list(json["woken"]).first?["within5"]?.bytes == Array("1".utf8))
    }
}
