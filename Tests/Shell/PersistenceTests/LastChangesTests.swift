import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite("Store, changes of the same row")
struct LastChangesTests {
    /// Which of the changes are written.
    private func written(_ changes: [RowChange]...) -> [Bool] {
        let entries = changes.map { StoreIntake.Entry(ticket: nil, changes: $0) }
        var last = LastChanges(of: [], entries)
        return changes.joined().map { _ in last.nextCounts() }
    }

    private func record(_ id: UInt64, isOver: Bool) -> TimelineRecord {
        var record = TimelineRecord(
            id: RecordID(rawValue: id), kind: .call, user: ByteString("bob"), host: ByteString("example.net"),
            device: 7, callRef: nil, callID: ByteString("c"), requestedAt: UnixTime(milliseconds: 0), omission: nil)
        record.hasOpening = isOver
        return record
    }

    @Test func `of a call's entry in the bucket the last change is written`() {
        let (one, two) = (BucketEntry.sample(1), BucketEntry.sample(2))
        #expect(
            written(
                [.bucket(alice, .upsert(one)), .bucket(alice, .upsert(two))],
                [.bucket(alice, .upsert(one)), .bucket(alice, .delete(one.callRef))]) == [false, true, false, true])
    }

    @Test func `a call that is over has no row as a call under way, another one has`() {
        #expect(
            written(
                [.timeline(.callOpened(record(1, isOver: false))), .timeline(.callOpened(record(2, isOver: false)))],
                [.timeline(.record(record(1, isOver: true)))], [.timeline(.record(record(3, isOver: true)))])
                == [false, true, true, true])
    }

    @Test func `a record is written whatever follows it, and its opening stays where another call's record comes`() {
        #expect(
            written([.timeline(.record(record(1, isOver: true))), .timeline(.callOpened(record(1, isOver: false)))])
                == [true, true])
        #expect(
            written([.timeline(.callOpened(record(1, isOver: false))), .timeline(.record(record(2, isOver: true)))])
                == [true, true])
        #expect(
            written([.timeline(.record(record(1, isOver: true))), .timeline(.record(record(1, isOver: true)))])
                == [true, true])
    }

    @Test func `contacts, and what services change, are written each time`() {
        #expect(
            written(
                [.engine(.binding(.upsert(.sample(1)))), .engine(.binding(.delete(1)))],
                [.service(.note(key: "k", value: "a")), .service(.note(key: "k", value: "b"))])
                == [true, true, true, true])
    }
}
