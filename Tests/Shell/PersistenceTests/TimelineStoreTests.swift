import PushPlanning
import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Reactor
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite("The timeline in the store", .timeLimit(.minutes(10)))
struct TimelineStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func record(
        _ call: UInt64, number: UInt64 = 0, user: String = "bob", callID: String = "c1", at date: Int64 = 1_000_000
    ) -> TimelineRecord {
        TimelineRecord(
            id: .init(rawValue: number), kind: .call, user: ByteString(user), host: ByteString("example.net"),
            device: 71, callRef: CallRef(rawValue: call), callID: ByteString(callID),
            requestedAt: UnixTime(milliseconds: date), omission: .ordinaryContact)
    }

    private let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))
    private let stranger = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org"))

    @Test func `a record is read back unchanged`() async throws {
        let store = try ObservedWriter(folder)
        var full = TimelineRecord(
            id: .init(rawValue: 0), kind: .missedCalls, user: bob.user, host: bob.host,
            device: DeviceID(rawValue: .max), callRef: nil,
            callID: .empty, calls: 3, requestedAt: UnixTime(milliseconds: 1_790_000_000_123), omission: nil,
            code: PushCode(high: 1, low: 2))
        full.app = "apns.dev/second"
        full.delivery = .finished
        full.tries = 9
        full.answer = .tokenDead
        full.status = 410
        full.reason = "tls: it's over"
        full.deadSince = UnixTime(milliseconds: 1_789_999_999_999)
        full.providerID = ByteString([0x41, 0, 0xFF])
        full.steps.sent = 0
        full.steps.answered = 1
        full.steps.registered = 2
        full.sign = .keepAlive
        full.steps.invited = 3
        full.steps.rang = 4
        full.steps.ended = .max
        full.end = .refused
        full.endStatus = 486
        let empty = record(2)
        #expect(await store.write([.timeline(.record(full)), .timeline(.record(empty))]) == true)
        #expect(try folder.read { try $0.timeline(of: .user(bob), limit: 10) } == [full, empty])
        #expect(try folder.read { try $0.timeline(of: .callID(ByteString("c1")), limit: 10) } == [empty])
        store.writer.stop()
    }

    @Test(arguments: ["sip:700@example.net", "sips:700@10.0.0.2;user=phone", "tel:700"])
    func `a call that a phone made is found by its caller, and by the number that was called`(peer: String) async throws
    {
        let store = try ObservedWriter(folder)
        var made = TimelineRecord(
            id: .init(rawValue: 0), kind: .outgoing, user: bob.user, host: bob.host, device: .nobody, callRef: nil,
            callID: ByteString("c7"), requestedAt: UnixTime(milliseconds: 7), omission: nil)
        made.delivery = .none
        made.peer = ByteString(peer)
        made.source = ByteString("192.0.2.7:5060")
        made.end = .answered
        made.steps.ended = 900
        #expect(await store.write([.timeline(.record(made))]) == true)
        let subjects: [TimelineSubject] = [
            .user(bob), .number(ByteString("700")), .callID(ByteString("c7")), .source(ByteString("192.0.2.7")),
        ]
        for subject in subjects {
            #expect(try folder.read { try $0.timeline(of: subject, limit: 10) } == [made], "\(subject)")
        }
        for number in ["70", "7000", "%", "_00"] {
            #expect(
                try folder.read { try $0.timeline(of: .number(ByteString(number)), limit: 10) }.isEmpty, "\(number)")
        }
        #expect(made.isFor(ByteString("700")) && !made.isFor(ByteString("70")))
        store.writer.stop()
    }

    private func refusal(_ refusal: Refusal, _ share: RefusalShare, _ callID: String, at date: Int64 = 5)
        -> TimelineRecord
    {
        var record = TimelineRecord(
            id: .init(rawValue: 0), kind: .call, user: bob.user, host: ByteString("else.org"), device: .nobody,
            callRef: nil, callID: ByteString(callID), requestedAt: UnixTime(milliseconds: date), omission: nil)
        record.source = ByteString("192.0.2.7:5060")
        record.peer = ByteString("sip:eve@example.net")
        record.refused(refusal, 403, share: share)
        record.reason = "because"
        return record
    }

    @Test(arguments: Refusal.allCases, RefusalShare.allCases)
    func `each refusal is found by number, caller, address and Call-ID`(reason: Refusal, share: RefusalShare)
        async throws
    {
        let store = try ObservedWriter(folder)
        let refused = refusal(reason, share, "c9")
        #expect(await store.write([.timeline(.record(refused))]) == true)
        let eve = AddressOfRecord(user: ByteString("eve"), host: ByteString("example.net"))
        let subjects: [TimelineSubject] = [
            .number(bob.user), .user(AddressOfRecord(user: bob.user, host: ByteString("else.org"))), .user(eve),
            .source(ByteString("192.0.2.7")), .callID(ByteString("c9")),
        ]
        for subject in subjects {
            #expect(try folder.read { try $0.timeline(of: subject, limit: 10) } == [refused], "\(subject)")
        }
        for subject: TimelineSubject in [.source(ByteString("192.0.2.70")), .number(eve.user), .user(bob)] {
            #expect(try folder.read { try $0.timeline(of: subject, limit: 10) }.isEmpty, "\(subject)")
        }
        #expect(try folder.rowCounts()["push_record"] == 0)
        store.writer.stop()
    }

    @Test func `strangers displace neither others' refusals nor records of pushes`() async throws {
        let store = try ObservedWriter(folder)
        var changes: [RowChange] = [
            .timeline(.record(record(1))), .timeline(.record(refusal(.unknownUser, .trusted, "pbx"))),
            .timeline(.record(refusal(.otherIdentity, .user, "phone"))),
        ]
        for number in 0..<3000 {
            changes.append(.timeline(.record(refusal(.notTrusted, .stranger, "s\(number)", at: Int64(10 + number)))))
        }
        #expect(await store.write(changes) == true)
        let prune = RowChange.pruneTimeline(before: UnixTime(milliseconds: 0), keeping: 10, limit: 9999)
        #expect(await store.write([prune]) == true)
        #expect(try folder.rowCounts()["refused_request"] == Int64(RefusalShare.stranger.records + 2))
        for callID in ["pbx", "phone", "c1", "s2999"] {
            #expect(
                try folder.read { try $0.timeline(of: .callID(ByteString(callID)), limit: 9) }.count == 1, "\(callID)")
        }
        #expect(try folder.read { try $0.timeline(of: .callID(ByteString("s999")), limit: 9) }.isEmpty)
        // The store removes old records, whatever event they describe.
        #expect(
            await store.write([.pruneTimeline(before: UnixTime(milliseconds: 9), keeping: 10, limit: 9)]) == true)
        #expect(try folder.read { try $0.timeline(of: .callID(ByteString("pbx")), limit: 9) }.isEmpty)
        store.writer.stop()
    }

    @Test(arguments: TimelineRecord.Omission.allCases)
    func `each omission is read back`(omission: TimelineRecord.Omission) async throws {
        let store = try ObservedWriter(folder)
        let record = TimelineRecord(
            id: .init(rawValue: 0), kind: .call, user: bob.user, host: bob.host, device: 0, callRef: nil,
            callID: ByteString("c1"), requestedAt: UnixTime(milliseconds: 1), omission: omission)
        #expect(await store.write([.timeline(.record(record))]) == true)
        #expect(try folder.read { try $0.timeline(of: .callID(ByteString("c1")), limit: 1) } == [record])
        store.writer.stop()
    }

    @Test func `the last records of a user or a call, the oldest first`() async throws {
        let store = try ObservedWriter(folder)
        let records = (1...9).map { record($0, user: $0 % 3 == 0 ? "eve" : "bob", callID: "c\($0 % 2)") }
        #expect(await store.write(records.map { .timeline(.record($0)) }) == true)
        #expect(try folder.read { try $0.timeline(of: .user(bob), limit: 3) }.map(\.callRef?.rawValue) == [5, 7, 8])
        #expect(
            try folder.read { try $0.timeline(of: .callID(ByteString("c0")), limit: 2) }.map(\.callRef?.rawValue) == [
                6, 8,
            ])
        #expect(try folder.read { try $0.timeline(of: .user(stranger), limit: 3) }.isEmpty)
        #expect(try folder.read { try $0.timeline(of: .callID(.empty), limit: 3) }.isEmpty)
        store.writer.stop()
    }

    @Test(.onlySQLite) func `pushes are looked up in an index, users and calls from the table's end`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write([.timeline(.record(record(1)))]) == true)
        for (condition, isIndexed) in [
            ("code = 'a'", true), ("user = 'a' AND domain = 'b'", false), ("call_id = 'c' AND call_id != ''", false),
        ] {
            let plan = try folder.read { tables in
                let connection = try #require(tables as? Connection)
                let rows = try connection.statement(
                    "EXPLAIN QUERY PLAN SELECT * FROM push_record WHERE \(condition) ORDER BY id DESC LIMIT 5")
                var plan = ""
                while try rows.step() { plan += rows.text(3) }
                return plan
            }
            #expect(plan.contains("USING INDEX push_record_") == isIndexed, "\(plan)")
            #expect(!plan.contains("TEMP B-TREE"), "\(plan)")
        }
        store.writer.stop()
    }

    // MARK: Deleting

    private func numbers() throws -> [UInt64] {
        try folder.read { try $0.timeline(of: .user(bob), limit: 99) }.compactMap(\.callRef?.rawValue)
    }

    @Test func `old records go by age`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write((1...9).map { .timeline(.record(record($0, at: Int64($0) * 1000))) }) == true)
        let before = UnixTime(milliseconds: 5000)
        #expect(await store.write([.pruneTimeline(before: before, keeping: 99, limit: 3)]) == true)
        #expect(try numbers() == [4, 5, 6, 7, 8, 9])
        #expect(await store.write([.pruneTimeline(before: before, keeping: 99, limit: 3)]) == true)
        #expect(try numbers() == [5, 6, 7, 8, 9])
        store.writer.stop()
    }

    @Test func `a record with a future date does not keep the ones behind it`() async throws {
        let store = try ObservedWriter(folder)
        let dates: [Int64] = [900_000, 1000, 2000, 9000, 3000, 9001]
        #expect(
            await store.write(dates.enumerated().map { .timeline(.record(record(UInt64($0), at: $1))) }) == true)
        let before = UnixTime(milliseconds: 5000)
        #expect(await store.write([.pruneTimeline(before: before, keeping: 99, limit: 99)]) == true)
        // The store removes an old record that was stored after a newer record only together with the newer record.
        #expect(try numbers() == [3, 4, 5])
        #expect(
            await store.write([.pruneTimeline(before: UnixTime(milliseconds: 9001), keeping: 99, limit: 99)]) == true)
        #expect(try numbers() == [5])
        store.writer.stop()
    }

    @Test(arguments: [(9, 9), (4, 4), (0, 0)])
    func `and by number`(keeping: Int, left: Int) async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write((1...9).map { .timeline(.record(record($0))) }) == true)
        let change = RowChange.pruneTimeline(before: UnixTime(milliseconds: 0), keeping: keeping, limit: 99)
        #expect(await store.write([change]) == true)
        #expect(try numbers() == Array((1...9).suffix(left)))
        store.writer.stop()
    }

    /// Makes a timeline writer without a timer. The records are written together with the next awaited change.
    private func writing(
        _ store: ObservedWriter, queueLimit: Int, change: (inout TimelineSettings) -> Void = { _ in }
    ) throws -> TimelineWriting {
        var settings = TimelineSettings()
        change(&settings)
        return TimelineWriting(settings, writer: store.writer, queueLimit: queueLimit, loop: try EventLoop())
    }

    private func patientWriter() throws -> ObservedWriter {
        var settings = StoreWriterSettings()
        settings.gatherInterval = .seconds(3600)
        return try ObservedWriter(folder, settings)
    }

    @Test func `new records remove the oldest ones beyond the limit`() async throws {
        let store = try patientWriter()
        let timeline = try writing(store, queueLimit: 1000) {
            $0.maximumRecords = 3
            $0.maximumAge = .seconds(1_000_000_000_000)
        }
        timeline.write((1...63).map { .record(record($0)) })
        #expect(await store.write([.service(.note(key: "k", value: "v"))]) == true)
        #expect(try numbers().count == 63)
        timeline.write([.record(record(64))])
        #expect(await store.write([.service(.note(key: "k", value: "v"))]) == true)
        #expect(try numbers() == [62, 63, 64])
        #expect(timeline.dropped == 0)
        store.writer.stop()
    }

    @Test func `when too much else waits records are left out and counted`() async throws {
        let store = try patientWriter()
        let timeline = try writing(store, queueLimit: 2)
        timeline.write([.record(record(1)), .record(record(2))])
        timeline.write([.record(record(3))])
        #expect(timeline.dropped == 1)
        #expect(await store.write([.service(.note(key: "k", value: "v"))]) == true)
        #expect(try numbers() == [1, 2])
        timeline.write([.record(record(4))])
        #expect(await store.write([.service(.note(key: "k", value: "v"))]) == true)
        #expect(try numbers() == [1, 2, 4])
        store.writer.stop()
    }
}
