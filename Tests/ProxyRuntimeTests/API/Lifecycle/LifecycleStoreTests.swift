import Addressing
import Bytes
import HTTPServer
import PushDelivery
import Registration
import Storage
import Testing
import Timekeeping

@testable import ProxyRuntime

/// 2026-11-21 00:00:00 UTC.
private let day = UnixTime(seconds: 1_795_219_200)

private func code(_ number: UInt64) -> PushCode { PushCode(high: number, low: number) }

/// A push that was accepted, of a call that nobody answered.
private func record(
    _ number: UInt64, device: UInt64 = 71, kind: TimelineRecord.Kind = .call, app: String = "fcm",
    at date: UnixTime = day, _ change: (inout TimelineRecord) -> Void = { _ in }
) -> TimelineRecord {
    var record = TimelineRecord(
        id: PushID(rawValue: number), kind: kind, user: ByteString("bob"), host: ByteString("example.net"),
        device: device, callRef: CallRef(rawValue: number), callID: ByteString("c\(number)"), requestedAt: date,
        omission: nil, code: code(number), app: app)
    record.delivery = .finished
    record.answer = .accepted
    record.tries = 1
    record.end = .timeOver
    change(&record)
    return record
}

private func read<Result>(_ folder: StoreFolder, _ body: (Connection) throws -> Result) throws -> Result {
    var options = ConnectionOptions()
    options.access = .readOnly
    return try body(try Connection(path: folder.path, options: options))
}

@Suite("Marks in the store", .timeLimit(.minutes(1)))
struct LifecycleStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func unread(since date: UnixTime = UnixTime(milliseconds: 0)) throws -> [String] {
        var reader = try StoreReader(path: folder.path, mayMigrate: false)
        var found: [String] = []
        try reader.forEachUnreadPush(since: date) { _, matter, device, date in
            let what =
                switch matter {
                case .call(let call): "call \(call.rawValue)"
                case .list: "list"
                case .other: "other"
                }
            found.append("\(device.rawValue) \(what) \((date - day).components.seconds)")
        }
        return found
    }

    private func marks(_ number: UInt64, _ device: UInt64) throws -> PushMarks? {
        try read(folder) { try $0.timeline(of: code(number), limit: 10) }.first { $0.device == device }?.marks
    }

    @Test(arguments: PushMark.allCases)
    func `a mark is set once, in its row, and sets no other`(mark: PushMark) async throws {
        let store = try ObservedWriter(folder.path)
        // One push for two devices, and another.
        let records = [record(1), record(1, device: 72), record(2)]
        #expect(await store.write(records.map { .timeline($0) }) == true)
        for second in 1...2 as ClosedRange<Int64> {
            let result = await store.submit([
                .pushMark(code(1), device: 71, mark, at: day + .seconds(second))
            ])
            #expect(result?.isStored == true && result?.isFound == true)
        }
        var expected = PushMarks()
        expected.set(mark, at: day + .seconds(1))
        #expect(try marks(1, 71) == expected)
        #expect(try marks(1, 72) == PushMarks())
        #expect(try marks(2, 71) == PushMarks())
        store.writer.stop()
    }

    @Test func `what is not there is not found, and says nothing of others in the same commit`() async throws {
        let store = try ObservedWriter(folder.path)
        #expect(await store.write([.timeline(record(1))]) == true)
        for change in [
            .pushMark(code(2), device: 71, .read, at: day), .pushMark(code(1), device: 72, .read, at: day),
        ] as [StoreChange] {
            let result = await store.submit([change])
            #expect(result?.isStored == true && result?.isFound == false)
        }
        let result = await store.submit([.pushMark(code(1), device: 71, .read, at: day)])
        #expect(result?.isFound == true)
        store.writer.stop()
    }

    @Test func `marks of the open record come back`() async throws {
        let store = try ObservedWriter(folder.path)
        let full = record(1) {
            $0.marks.received = day
            $0.marks.followed = day + .seconds(1)
            $0.marks.read = day + .seconds(2)
        }
        #expect(await store.write([.timeline(full)]) == true)
        #expect(try read(folder) { try $0.timeline(of: code(1), limit: 10) } == [full])
        store.writer.stop()
    }

    @Test func `unread is what was accepted and not read, by device and time`() async throws {
        let store = try ObservedWriter(folder.path)
        let records = [
            record(1, device: 72), record(2, at: day + .seconds(20)), record(3, at: day + .seconds(10)),
            record(4, kind: .missedCalls, at: day + .seconds(30)),
            record(5) { $0.marks.read = day },
            record(6) { $0.answer = .failed },
            record(7) {
                $0.delivery = .withdrawn
                $0.answer = nil
            },
            record(8, at: day + .seconds(40)) { $0.answer = .acceptedWithNewToken },
            record(9, at: day + .seconds(50)) { $0.marks.received = day },
        ]
        #expect(await store.write(records.map { .timeline($0) }) == true)
        #expect(
            try unread() == [
                "71 call 3 10", "71 call 2 20", "71 list 30", "71 call 8 40", "71 call 9 50", "72 call 1 0",
            ])
        #expect(try unread(since: day + .seconds(30)) == ["71 list 30", "71 call 8 40", "71 call 9 50"])
        #expect(
            await store.write([.pushesRead([code(2), code(3), code(99)], device: 71, at: day)]) == true)
        #expect(try unread() == ["71 list 30", "71 call 8 40", "71 call 9 50", "72 call 1 0"])
        #expect(await store.write([.allPushesRead(device: 71, at: day)]) == true)
        #expect(try unread() == ["72 call 1 0"])
        store.writer.stop()
    }

    @Test func `what shall not count in the badge does not after a restart, and can be read all the same`() async throws
    {
        let store = try ObservedWriter(folder.path)
        let counted = record(1, kind: .notification) { $0.end = nil }
        let uncounted = record(2, kind: .notification) {
            $0.end = nil
            $0.marks.isOutsideBadge = true
        }
        #expect(await store.write([.timeline(counted), .timeline(uncounted)]) == true)
        #expect(try unread() == ["71 other 0"])
        #expect(try marks(2, 71)?.read == nil)
        let result = await store.submit([.pushMark(code(2), device: 71, .read, at: day)])
        #expect(result?.isFound == true)
        #expect(try marks(2, 71)?.read == day)
        store.writer.stop()
    }

    @Test func `pushes from before there were marks are not unread, and not marked`() throws {
        let connection = try Connection(path: folder.path, options: ConnectionOptions())
        try connection.migrate(Array(StoreSchema.scripts.prefix(4)), applicationID: StoreSchema.applicationID)
        try connection.execute(
            """
            INSERT INTO push_record (user, domain, call_id, kind, calls, device, requested_at, app, code, delivery, tries,
                answer, reason, provider_id)
            VALUES ('bob', 'example.net', 'c1', 'call', 1, 71, \(day.milliseconds), 'fcm', '\(code(1))', 'finished', 1,
                'accepted', '', '')
            """)
        try connection.migrate(StoreSchema.scripts, applicationID: StoreSchema.applicationID)
        #expect(try unread().isEmpty)
        #expect(try marks(1, 71) == PushMarks())
        #expect(try connection.statistics(PushStatistics()).map(\.figures) == [[1, 1, 1, 0, 0, 0, 0]])
    }
}

@Suite("Statistics of pushes", .timeLimit(.minutes(1)))
struct PushStatisticsTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Two days, two apps, one push for two devices.
    private func withRows(_ body: (Connection) throws -> Void) async throws {
        let store = try ObservedWriter(folder.path)
        let next = day + .seconds(86_400)
        let records = [
            record(1) { $0.marks.received = day },
            // SIP shows that it was received and followed.
            record(2) {
                $0.steps.registered = 10
                $0.end = .answered
                $0.marks.read = day
            },
            record(3, app: "apns/second", at: next + .milliseconds(-1)) { $0.answer = .tokenDead },
            record(4, kind: .missedCalls, at: next),
            record(5, device: 72, app: "apns/second", at: next) { $0.marks.followed = next },
            record(4, device: 72, kind: .missedCalls, app: "apns/second", at: next) { $0.marks.read = next },
            // Neither accepted nor refused.
            record(6, at: next) {
                $0.delivery = .withdrawn
                $0.answer = nil
            },
            // Never sent: the phone came by itself.
            record(7, at: next) {
                $0.delivery = .withdrawn
                $0.answer = nil
                $0.tries = 0
                $0.steps.registered = 10
                $0.end = .answered
            },
            // No answer at all, and no try.
            record(8, at: next) {
                $0.answer = .queueFull
                $0.tries = 0
            },
        ]
        // A call without a push is none.
        let without = TimelineRecord(
            id: PushID(rawValue: 9), kind: .call, user: ByteString("bob"), host: ByteString("example.net"), device: 71,
            callRef: nil, callID: ByteString("c9"), requestedAt: day, omission: .ordinaryContact)
        #expect(await store.write((records + [without]).map { .timeline($0) }) == true)
        store.writer.stop()
        try read(folder, body)
    }

    private func text(_ connection: Connection, _ change: (inout PushStatistics) -> Void) throws -> String {
        var asked = PushStatistics()
        change(&asked)
        let response = asked.response(try connection.statistics(asked))
        #expect(response.status == 200)
        return String(decoding: response.body, as: UTF8.self)
    }

    private let figures = "devices,sent,accepted,failed,received,followed,read\r\n"

    @Test func `by day`() async throws {
        try await withRows { connection in
            let json = try text(connection) { _ in }
            #expect(
                json == #"{"by":"day","statistics":["#
                    + #"{"day":"2026-11-21","devices":3,"sent":3,"accepted":2,"failed":1,"received":2,"followed":1,"read":1},"#
                    + #"{"day":"2026-11-22","devices":6,"sent":4,"accepted":3,"failed":1,"received":0,"followed":1,"read":1}]}"#
            )
            let csv = try text(connection) { $0.isCSV = true }
            #expect(csv == "day,\(figures)2026-11-21,3,3,2,1,2,1,1\r\n2026-11-22,6,4,3,1,0,1,1\r\n")
            let part = try text(connection) {
                $0.isCSV = true
                $0.from = day + .seconds(86_400)
                $0.app = "apns/second"
            }
            #expect(part == "day,\(figures)2026-11-22,2,2,2,0,0,1,1\r\n")
        }
    }

    @Test func `by app`() async throws {
        try await withRows { connection in
            let csv = try text(connection) {
                $0.by = .app
                $0.isCSV = true
            }
            #expect(csv == "app,\(figures)apns/second,3,3,2,1,0,1,1\r\nfcm,6,4,3,1,2,1,1\r\n")
            let json = try text(connection) {
                $0.by = .app
                $0.to = day + .seconds(1)
            }
            #expect(
                json
                    == #"{"by":"app","statistics":[{"app":"fcm","devices":2,"sent":2,"accepted":2,"failed":0,"received":2,"followed":1,"read":1}]}"#
            )
            let empty = try text(connection) {
                $0.by = .app
                $0.to = day
            }
            #expect(empty == #"{"by":"app","statistics":[]}"#)
        }
    }

    @Test func `by push, page by page`() async throws {
        try await withRows { connection in
            let json = try text(connection) {
                $0.by = .push
                $0.limit = 2
            }
            #expect(
                json == #"{"by":"push","statistics":["#
                    + #"{"push":"\#(code(1))","date":1795219200,"kind":"call","app":"fcm","devices":1,"sent":1,"accepted":1,"failed":0,"received":1,"followed":0,"read":0},"#
                    + #"{"push":"\#(code(2))","date":1795219200,"kind":"call","app":"fcm","devices":1,"sent":1,"accepted":1,"failed":0,"received":1,"followed":1,"read":1}],"next":2}"#
            )
            // The fourth went to two devices, of two apps; its rows do not stand together.
            let csv = try text(connection) {
                $0.by = .push
                $0.after = 3
                $0.limit = 2
                $0.isCSV = true
            }
            #expect(
                csv == "push,date,kind,app,\(figures)"
                    + "\(code(4)),1795305600,missed-calls,\"fcm,apns/second\",2,2,2,0,0,0,1\r\n"
                    + "\(code(5)),1795305600,call,apns/second,1,1,1,0,0,1,0\r\n")
            let app = try text(connection) {
                $0.by = .push
                $0.app = "apns/second"
                $0.isCSV = true
                $0.after = 4
            }
            #expect(
                app == "push,date,kind,app,\(figures)\(code(5)),1795305600,call,apns/second,1,1,1,0,0,1,0\r\n"
                    + "\(code(4)),1795305600,missed-calls,apns/second,1,1,1,0,0,0,1\r\n")
            let empty = try text(connection) {
                $0.by = .push
                $0.after = 9
            }
            #expect(empty == #"{"by":"push","statistics":[]}"#)
        }
    }

    @Test func `the next page is linked`() {
        var asked = PushStatistics()
        asked.by = .push
        asked.limit = 1
        asked.app = "fcm/a b&c"
        asked.from = day
        asked.isCSV = true
        let rows = (1...2).map { number in
            PushStatistics.Row(
                subject: .push(
                    PushStatistics.Push(row: number, code: "c", date: 1, kind: "call", app: "fcm")),
                figures: Array(repeating: 0, count: 7))
        }
        let link = asked.response(rows).fields.first { $0.name == "Link" }?.value
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
