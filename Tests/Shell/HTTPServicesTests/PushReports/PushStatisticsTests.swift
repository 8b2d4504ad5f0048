import PushPlanning
import HTTPSemantics
import Addressing
import Bytes
import Collections
import HTTPServer
import ProxyCore
import PushDelivery
import Reactor
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence
@testable import HTTPServices

/// 2026-11-21 00:00:00 UTC.
private let day = UnixTime(seconds: 1_795_219_200)

private func record(
    _ number: UInt64, device: DeviceID = 71, kind: TimelineRecord.Kind = .call, app: String = "fcm",
    at date: UnixTime = day, _ change: (inout TimelineRecord) -> Void = { _ in }
) -> TimelineRecord {
    .sample(number, device: device, kind: kind, app: app, at: date, change)
}

@Suite("Statistics of pushes", .timeLimit(.minutes(10)))
struct PushStatisticsTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Runs a test with a store that has pushes of two days and two apps. One of the pushes was sent to two devices.
    private func withRows(_ body: (DatabaseStore) async throws -> Void) async throws {
        let store = try ObservedWriter(folder)
        let next = day + .seconds(86_400)
        let records = [
            record(1) { $0.marks.received = day },
            // The phone's REGISTER and answer show that the app received and followed push 2.
            record(2) {
                $0.steps.registered = 10
                $0.end = .answered
                $0.marks.read = day
            },
            record(3, app: "apns/second", at: next + .milliseconds(-1)) { $0.answer = .tokenDead },
            record(4, kind: .missedCalls, at: next),
            record(5, device: 72, app: "apns/second", at: next) { $0.marks.followed = next },
            record(4, device: 72, kind: .missedCalls, app: "apns/second", at: next) { $0.marks.read = next },
            // The provider neither accepted nor refused push 6.
            record(6, at: next) {
                $0.delivery = .withdrawn
                $0.answer = nil
            },
            // Push 7 was never sent, because the phone registered without a push.
            record(7, at: next) {
                $0.delivery = .withdrawn
                $0.answer = nil
                $0.tries = 0
                $0.steps.registered = 10
                $0.end = .answered
            },
            // The daemon never tried to send push 8, so no provider has answered it.
            record(8, at: next) {
                $0.answer = .queueFull
                $0.tries = 0
            },
        ]
        // The statistics do not count a call without a push.
        let without = TimelineRecord(
            id: .init(rawValue: 9), kind: .call, user: ByteString("bob"), host: ByteString("example.net"), device: 71,
            callRef: nil, callID: ByteString("c9"), requestedAt: day, omission: .ordinaryContact)
        #expect(await store.write((records + [without]).map { .timeline(.record($0)) }) == true)
        store.writer.stop()
        let reading = try folder.open(loop: try EventLoop(), log: .silent)
        defer { reading.close() }
        try await body(reading)
    }

    private func text(_ store: DatabaseStore, _ asked: PushStatistics) async throws -> String {
        let response = asked.response(try await store.statistics(asked.question))
        #expect(response.status == 200)
        return String(decoding: response.body, as: UTF8.self)
    }

    /// A query of the push statistics, and the expected answer.
    struct Row: Sendable, CustomStringConvertible {
        let description: String
        let asked: PushStatistics
        let told: String

        /// If `lines` are given, the expected answer is CSV. The test adds the names of the counters to the first line
        /// of the CSV.
        fileprivate init(
            _ name: String, by: StatisticsQuestion.Grouping, from: UnixTime? = nil, to: UnixTime? = nil,
            app: String = "", after: UInt64 = 0, limit: Int = 1000, lines: [String] = [], json: String = ""
        ) {
            description = name
            var asked = PushStatistics()
            asked.isCSV = !lines.isEmpty
            asked.question.by = by
            if let from { asked.question.from = from }
            if let to { asked.question.to = to }
            asked.question.app = app
            asked.question.after = PageCursor(after)
            asked.question.limit = limit
            self.asked = asked
            let lines =
                lines.prefix(1).map { "\($0),devices,sent,accepted,failed,received,followed,read" } + lines.dropFirst()
            told =
                lines.isEmpty
                ? #"{"by":"\#(by.rawValue)","statistics":"# + json + "}" : lines.map { $0 + "\r\n" }.joined()
        }
    }

    @Test(arguments: [
        Row(
            "by day", by: .day,
            json:
                #"[{"day":"2026-11-21","devices":3,"sent":3,"accepted":2,"failed":1,"received":2,"followed":1,"read":1},"#
                + #"{"day":"2026-11-22","devices":6,"sent":4,"accepted":3,"failed":1,"received":0,"followed":1,"read":1}]"#
        ),
        Row("by day, as CSV", by: .day, lines: ["day", "2026-11-21,3,3,2,1,2,1,1", "2026-11-22,6,4,3,1,0,1,1"]),
        Row(
            "of an app, from a day on", by: .day, from: day + .seconds(86_400), app: "apns/second",
            lines: ["day", "2026-11-22,2,2,2,0,0,1,1"]),
        Row("by app, as CSV", by: .app, lines: ["app", "apns/second,3,3,2,1,0,1,1", "fcm,6,4,3,1,2,1,1"]),
        Row(
            "by app, up to a time", by: .app, to: day + .seconds(1),
            json: #"[{"app":"fcm","devices":2,"sent":2,"accepted":2,"failed":0,"received":2,"followed":1,"read":1}]"#),
        Row("by app, of no time", by: .app, to: day, json: "[]"),
        Row(
            "by push, the first page", by: .push, limit: 2,
            json:
                #"[{"push":"\#(PushCode.sample(1))","date":1795219200,"kind":"call","app":"fcm","devices":1,"sent":1,"accepted":1,"failed":0,"received":1,"followed":0,"read":0},"#
                + #"{"push":"\#(PushCode.sample(2))","date":1795219200,"kind":"call","app":"fcm","devices":1,"sent":1,"accepted":1,"failed":0,"received":1,"followed":1,"read":1}],"next":2"#
        ),
        Row(
            "by push: the fourth went to two devices, of two apps, and its rows do not stand together", by: .push,
            after: 3, limit: 2,
            lines: [
                "push,date,kind,app",
                "\(PushCode.sample(4)),1795305600,missed-calls,\"fcm,apns/second\",2,2,2,0,0,0,1",
                "\(PushCode.sample(5)),1795305600,call,apns/second,1,1,1,0,0,1,0",
            ]),
        Row(
            "by push, of an app", by: .push, app: "apns/second", after: 4,
            lines: [
                "push,date,kind,app", "\(PushCode.sample(5)),1795305600,call,apns/second,1,1,1,0,0,1,0",
                "\(PushCode.sample(4)),1795305600,missed-calls,apns/second,1,1,1,0,0,0,1",
            ]),
        Row("by push, behind the last", by: .push, after: 9, json: "[]"),
    ])
    func `each query has its answer`(row: Row) async throws {
        try await withRows { store in
            let told = try await text(store, row.asked)
            #expect(told == row.told)
        }
    }

    @Test func `the next page is linked`() {
        var asked = PushStatistics()
        asked.question.by = .push
        asked.question.limit = 1
        asked.question.app = "fcm/a b&c"
        asked.question.from = day
        asked.isCSV = true
        let row = StatisticsRow(
            subject: .push(StatisticsRow.Push(code: "c", date: 1, kind: "call", app: "fcm")),
            figures: Array(repeating: 0, count: 7))
        let link = asked.response(Page([row], next: PageCursor(1))).fields.first { $0.name == "Link" }?.value
        #expect(
            link
                == "</v1/push-statistics?by=push&after=1&limit=1&from=1795219200&app=fcm%2Fa%20b%26c&format=csv>; rel=\"next\""
        )
    }

    @Test(arguments: [
        ("fcm", "fcm"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("a\r\nb", "\"a\r\nb\""), ("", ""),
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\t=1", "'\t=1"),
        ("\n=1", "\"'\n=1\""), ("\r=1", "\"'\r=1\""), ("-", "'-"), ("a-b", "a-b"),
        ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""), ("a=b", "a=b"),
    ])
    func `fields of CSV`(text: String, field: String) {
        #expect(PushStatistics.csvField(text) == field)
    }
}
