import Addressing
import Bytes
import ProxyCore
import PushDelivery
import PushPlanning
import Reactor
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// 2026-11-21 in UTC.
private let day: Int64 = 20_778
private let noon = UnixTime(seconds: day * 86_400 + 43_200)

private func record(
    _ number: UInt64, device: DeviceID = 71, host: String = "example.net", app: String = "fcm",
    at date: UnixTime = noon,
    _ change: (inout TimelineRecord) -> Void = { _ in }
) -> RowChange {
    var record = TimelineRecord(
        id: .init(rawValue: 0), kind: .call, user: ByteString("bob"), host: ByteString(host), device: device,
        callRef: CallRef(rawValue: number), callID: ByteString("c\(number)"), requestedAt: date, omission: nil,
        code: .sample(number), app: app)
    record.delivery = .finished
    record.answer = .accepted
    record.end = .timeOver
    record.steps.ended = 8000
    change(&record)
    return .timeline(.record(record))
}

private func came(_ time: Int32) -> (inout TimelineRecord) -> Void {
    { record in
        record.steps.registered = time
        record.steps.invited = time + 1
        record.end = .answered
    }
}

@Suite("The report of wakes in the store", .timeLimit(.minutes(10)))
struct WakeStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func rows(
        _ by: WakeQuestion.Grouping = .app, days: ClosedRange<Int64> = day...day, domains: [String]? = nil
    ) throws -> [String: WakeCounts] {
        var asked = WakeQuestion(days: days)
        asked.by = by
        asked.domains = domains.map { $0.map { ByteString($0) } }
        let rows = try folder.read { try $0.wakes(asked) }
        #expect(rows.map(\.name) == rows.map(\.name).sorted())
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.name, $0.counts) })
    }

    private func phone(_ id: UInt64, _ agent: String) -> RowChange {
        .engine(.binding(.upsert(.sample(id, userAgent: ByteString(agent)))))
    }

    private let count = RowChange.countWakes(limit: 1000)

    // MARK: What counts

    @Test func `each outcome is counted once, and only first pushes of calls that the provider accepted count`()
        async throws
    {
        let store = try ObservedWriter(folder)
        let changes = [
            record(1, came(900)), record(2, came(6000)), record(3),
            record(4) {
                $0.end = .callerGaveUp
                $0.steps.ended = 2000
            },
            record(5) {
                $0.end = .answeredElsewhere
                $0.steps.ended = 2000
            },
            // A phone that was awake got push and INVITE together.
            record(6) { $0.steps.invited = 0 },
            record(7) { $0.answer = .tokenDead },
            record(8) {
                $0.delivery = .withdrawn
                $0.answer = nil
            },
            record(9) {
                $0.answer = .acceptedWithNewToken
                $0.sign = .response
                $0.steps.invited = 20_000
            },
        ]
        let others: [RowChange] = [TimelineRecord.Kind.missedCalls, .notification].map { kind in
            .timeline(.record(.sample(20, kind: kind, at: noon)))
        }
        let without = TimelineRecord(
            id: .init(rawValue: 0), kind: .call, user: ByteString("bob"), host: ByteString("example.net"), device: 71,
            callRef: nil, callID: ByteString("c9"), requestedAt: noon, omission: .providerPaused, app: "fcm")
        #expect(await store.write(changes + others + [.timeline(.record(without)), count]) == true)
        let counts = try #require(try rows()["fcm"])
        #expect(counts.came == 3 && counts.never == 1 && counts.callerGaveUp == 1 && counts.endedOtherwise == 1)
        #expect(counts.times.within(milliseconds: 5000) == 1)
        #expect(counts.times.within(milliseconds: 10_000) == 2)
        #expect(counts.times.within(milliseconds: 30_000) == 3)
        // A second count does not count the same records again.
        #expect(await store.write([count, count]) == true)
        #expect(await store.write([count]) == true)
        #expect(try rows()["fcm"] == counts)
        store.writer.stop()
    }

    @Test func `rows are by provider, app and system, and a key of one domain sees only its own`() async throws {
        let store = try ObservedWriter(folder)
        #expect(
            await store.write([
                phone(71, "LinphoneiOS/5.2 (iPhone)"), phone(72, "LinphoneAndroid/5.2"), phone(73, ""),
                record(1, device: 71, app: "apns/shop", came(900)), record(2, device: 71, app: "apns", came(900)),
                record(3, device: 72, app: "fcm", came(900)), record(4, device: 73, app: "fcm"),
                record(5, device: 99, app: "fcm/a/b"),
                record(6, device: 72, host: "example.org", app: "fcm", came(900)), count,
            ]) == true)
        #expect(try rows(.provider).mapValues(\.pushes) == ["apns": 2, "fcm": 4])
        #expect(try rows(.app).mapValues(\.pushes) == ["apns": 1, "apns/shop": 1, "fcm": 3, "fcm/a/b": 1])
        #expect(try rows(.system).mapValues(\.pushes) == ["iOS": 2, "Android": 2, "other": 2])
        #expect(try rows(.system, domains: ["example.org"]).mapValues(\.pushes) == ["Android": 1])
        #expect(
            try rows(.provider, domains: ["example.net", "example.org"]).mapValues(\.pushes) == ["apns": 2, "fcm": 4])
        #expect(try rows(domains: ["example.com"]).isEmpty)
        #expect(try rows(domains: []).isEmpty)
        store.writer.stop()
    }

    @Test func `a push belongs to the day of its request, and two days add up`() async throws {
        let store = try ObservedWriter(folder)
        let midnight = UnixTime(seconds: (day + 1) * 86_400)
        #expect(
            await store.write([
                record(1, at: midnight + .milliseconds(-1), came(2000)), record(2, at: midnight, came(2000)),
                record(3, at: midnight), count,
            ]) == true)
        #expect(try rows()["fcm"]?.pushes == 1)
        #expect(try rows(days: day + 1...day + 1)["fcm"]?.pushes == 2)
        let both = try #require(try rows(days: day...day + 1)["fcm"])
        #expect(both.pushes == 3 && both.times.total == 2 && both.never == 1)
        #expect(try rows(days: day + 2...day + 9).isEmpty)
        store.writer.stop()
    }

    // MARK: Once, and never lost

    @Test(.onlySQLite) func `the counts and their mark are in one transaction`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write([record(1), record(2)]) == true)
        store.writer.stop()
        // A transaction that is rolled back, as after `kill -9`, leaves neither counts nor the number of the last
        // counted record.
        do {
            let connection = try Connection.openStore(folder.path, mayCreate: false)
            try connection.execute("BEGIN IMMEDIATE")
            try connection.countWakes(limit: 1)
            #expect(try connection.countedRecord() == 1)
            try connection.execute("ROLLBACK")
            #expect(try connection.countedRecord() == 0)
            try connection.countWakes(limit: 1)
        }
        #expect(try rows()["fcm"]?.pushes == 1)
        let next = try ObservedWriter(folder)
        #expect(await next.write([record(3), count]) == true)
        #expect(try rows()["fcm"]?.pushes == 3)
        next.writer.stop()
    }

    @Test func `no record is deleted before it is counted`() async throws {
        let store = try ObservedWriter(folder)
        let prune = RowChange.pruneTimeline(before: noon + .seconds(1), keeping: 99, limit: 99)
        #expect(await store.write((1...5).map { record($0) } + [prune]) == true)
        #expect(try folder.rowCounts()["push_record"] == 0)
        #expect(try rows()["fcm"]?.pushes == 5)
        // When the table of timeline records is empty, SQLite uses its row numbers again.
        #expect(await store.write((6...8).map { record($0) }) == true)
        #expect(await store.write([count, prune, record(9), count]) == true)
        #expect(try rows()["fcm"]?.pushes == 9)
        // The deletion counts only the records that it deletes.
        #expect(await store.write([prune] + (10...14).map { record($0) }) == true)
        #expect(await store.write([.pruneTimeline(before: UnixTime(seconds: 0), keeping: 2, limit: 99)]) == true)
        #expect(try rows()["fcm"]?.pushes == 12)
        #expect(try folder.read { try $0.uncountedRecords() } == 2)
        store.writer.stop()
    }

    @Test func `records that somebody removed are not counted again`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write([record(1), record(2), record(3), count]) == true)
        try folder.execute("DELETE FROM push_record WHERE id = 3")
        #expect(await store.write([count, record(4), count]) == true)
        #expect(try rows()["fcm"]?.pushes == 4)
        store.writer.stop()
    }

    // MARK: Age and upgrade

    @Test func `days are kept for 400 days`() async throws {
        let store = try ObservedWriter(folder)
        let changes = [day, day - 399, day - 400].map { record(UInt64($0), at: UnixTime(seconds: $0 * 86_400)) }
        #expect(await store.write(changes + [count, .pruneWakes(beforeDay: day - 399)]) == true)
        #expect(try rows(days: 0...day)["fcm"]?.pushes == 2)
        #expect(try rows(days: 0...day - 400).isEmpty)
        store.writer.stop()
    }

    @Test(.onlySQLite) func `a store of schema 17 gets the table, and its records are counted`() async throws {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate(Array(StoreSchema.scripts.prefix(17)), applicationID: StoreSchema.applicationID)
            for number: UInt64 in 1...3000 { try old.write(.sample(number, at: noon)) }
            #expect(try old.schemaVersion() == 17)
        }
        let store = try folder.open(loop: try EventLoop(), log: .silent)
        var asked = WakeQuestion(days: day...day)
        asked.by = .system
        #expect(try await store.wakes(asked).map(\.counts.never) == [3000])
        #expect(try await store.wakes(asked).map(\.name) == ["other"])
        store.close()
        #expect(try folder.rowCounts()["push_record"] == 3000)
    }
}
