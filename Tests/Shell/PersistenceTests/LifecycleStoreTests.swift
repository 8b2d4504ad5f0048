import PushPlanning
import Addressing
import Collections
import ProxyCore
import PushDelivery
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// 2026-11-21 00:00:00 UTC.
private let day = UnixTime(seconds: 1_795_219_200)

private func record(
    _ number: UInt64, device: DeviceID = 71, kind: TimelineRecord.Kind = .call, at date: UnixTime = day,
    _ change: (inout TimelineRecord) -> Void = { _ in }
) -> TimelineRecord {
    .sample(number, device: device, kind: kind, at: date, change)
}

@Suite("Marks in the store", .timeLimit(.minutes(10)))
struct LifecycleStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Reads the unread pushes in pages of two, because the daemon also restores them in pages.
    private func unread(since date: UnixTime = UnixTime(milliseconds: 0)) throws -> [String] {
        var found: [UnreadPush] = []
        try folder.read { connection in
            while found.count < 99,
                case let page = try connection.unreadPushes(since: date, after: found.last, limit: 2), !page.isEmpty
            {
                found += page
            }
        }
        return found.map { push in
            let what =
                switch push.matter {
                case .call(let call): "call \(call.rawValue)"
                case .list: "list"
                case .other: "other"
                }
            return "\(push.device.rawValue) \(what) \((push.requestedAt - day).components.seconds)"
        }
    }

    private func records(_ number: UInt64) throws -> [TimelineRecord] {
        try folder.read { try $0.timeline(of: .push(.sample(number)), limit: 10) }
    }

    private func marks(_ number: UInt64, _ device: DeviceID) throws -> PushMarks? {
        try records(number).first { $0.device == device }?.marks
    }

    @Test(arguments: PushMark.allCases)
    func `a mark is set once, in its row, and sets no other`(mark: PushMark) async throws {
        let store = try ObservedWriter(folder)
        // The first two records belong to one push to two devices, and the third record belongs to another push.
        let records = [record(1), record(1, device: 72), record(2)]
        #expect(await store.write(records.map { .timeline(.record($0)) }) == true)
        for second in 1...2 as ClosedRange<Int64> {
            let result = await store.submit([
                .service(.pushMark(.sample(1), device: 71, mark, at: day + .seconds(second)))
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

    @Test func `an unknown push is not found, without effect on others in the same commit`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write([.timeline(.record(record(1)))]) == true)
        for change in [
            .service(.pushMark(.sample(2), device: 71, .read, at: day)),
            .service(.pushMark(.sample(1), device: 72, .read, at: day)),
        ] as [RowChange] {
            let result = await store.submit([change])
            #expect(result?.isStored == true && result?.isFound == false)
        }
        let result = await store.submit([.service(.pushMark(.sample(1), device: 71, .read, at: day))])
        #expect(result?.isFound == true)
        store.writer.stop()
    }

    @Test func `marks of the open record are restored`() async throws {
        let store = try ObservedWriter(folder)
        let full = record(1) {
            $0.marks.received = day
            $0.marks.followed = day + .seconds(1)
            $0.marks.read = day + .seconds(2)
        }
        #expect(await store.write([.timeline(.record(full))]) == true)
        #expect(try records(1) == [full])
        store.writer.stop()
    }

    @Test func `accepted pushes that were not read are unread, by device and time`() async throws {
        let store = try ObservedWriter(folder)
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
        #expect(await store.write(records.map { .timeline(.record($0)) }) == true)
        #expect(
            try unread() == [
                "71 call 3 10", "71 call 2 20", "71 list 30", "71 call 8 40", "71 call 9 50", "72 call 1 0",
            ])
        #expect(try unread(since: day + .seconds(30)) == ["71 list 30", "71 call 8 40", "71 call 9 50"])
        #expect(
            await store.write([.timeline(.pushesRead([.sample(2), .sample(3), .sample(99)], device: 71, at: day))])
                == true)
        #expect(try unread() == ["71 list 30", "71 call 8 40", "71 call 9 50", "72 call 1 0"])
        #expect(await store.write([.service(.allPushesRead(device: 71, at: day))]) == true)
        #expect(try unread() == ["72 call 1 0"])
        store.writer.stop()
    }

    @Test func `a push outside the badge stays so after a restart, and can be marked as read`() async throws {
        let store = try ObservedWriter(folder)
        let counted = record(1, kind: .notification) { $0.end = nil }
        let uncounted = record(2, kind: .notification) {
            $0.end = nil
            $0.marks.isOutsideBadge = true
        }
        #expect(await store.write([.timeline(.record(counted)), .timeline(.record(uncounted))]) == true)
        #expect(try unread() == ["71 other 0"])
        #expect(try marks(2, 71)?.read == nil)
        let result = await store.submit([.service(.pushMark(.sample(2), device: 71, .read, at: day))])
        #expect(result?.isFound == true)
        #expect(try marks(2, 71)?.read == day)
        store.writer.stop()
    }

    @Test(.onlySQLite) func `pushes from before there were marks are not unread, and not marked`() throws {
        let connection = try Connection(path: folder.path, options: ConnectionOptions())
        try connection.migrate(Array(StoreSchema.scripts.prefix(4)), applicationID: StoreSchema.applicationID)
        try connection.execute(
            """
            INSERT INTO push_record (user, domain, call_id, kind, calls, device, requested_at, app, code, delivery, tries,
                answer, reason, provider_id)
            VALUES ('bob', 'example.net', 'c1', 'call', 1, 71, \(day.milliseconds), 'fcm', '\(PushCode.sample(1))', 'finished', 1,
                'accepted', '', '')
            """)
        try connection.migrate(StoreSchema.scripts, applicationID: StoreSchema.applicationID)
        #expect(try unread().isEmpty)
        #expect(try marks(1, 71) == PushMarks())
        #expect(try connection.statistics(StatisticsQuestion()).elements.map(\.figures) == [[1, 1, 1, 0, 0, 0, 0]])
    }
}
