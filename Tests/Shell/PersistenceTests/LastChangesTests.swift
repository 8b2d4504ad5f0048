import PushPlanning
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
    /// Says for each change whether the store would write it.
    private func written(_ changes: [RowChange]...) -> [Bool] {
        let entries = changes.map { StoreIntake.Entry(ticket: nil, changes: $0) }
        var last = LastChanges(of: [], entries)
        return changes.joined().map { _ in last.nextCounts() }
    }

    private var record: TimelineRecord {
        TimelineRecord(
            id: RecordID(rawValue: 1), kind: .call, user: ByteString("bob"), host: ByteString("example.net"),
            device: 7, callRef: nil, callID: ByteString("c"), requestedAt: UnixTime(milliseconds: 0), omission: nil)
    }

    @Test func `of a call's entry in the bucket the last change is written`() {
        let (one, two) = (BucketEntry.sample(1), BucketEntry.sample(2))
        #expect(
            written(
                [.bucket(alice, .upsert(one)), .bucket(alice, .upsert(two))],
                [.bucket(alice, .upsert(one)), .bucket(alice, .delete(one.callRef))]) == [false, true, false, true])
    }

    @Test func `a record is always written`() {
        #expect(written([.timeline(.record(record)), .timeline(.record(record))]) == [true, true])
    }

    @Test func `contacts and changes of services are written each time`() {
        #expect(
            written(
                [.engine(.binding(.upsert(.sample(1)))), .engine(.binding(.delete(1)))],
                [.service(.note(key: "k", value: "a")), .service(.note(key: "k", value: "b"))])
                == [true, true, true, true])
    }
}
