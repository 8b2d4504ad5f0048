@testable import PushPlanning
import Addressing
import Bytes
import PushDelivery
import Registration
import Testing
import TestSupport
import Timekeeping

@Suite("The missed calls of all users")
struct BucketTableTests {
    private let bob = MachineScene.bob
    private let date = UnixTime(seconds: 1_790_000_000)
    private let device = DeviceID(rawValue: 5)

    private func entry(_ number: UInt64) -> BucketEntry {
        BucketEntry(
            callRef: CallRef(rawValue: number), caller: .empty, date: date,
            broughtBy: Caller(hash: number, isTrusted: true), devices: [device], told: [], isOver: true)
    }

    private func table(_ entries: BucketEntry...) -> BucketTable {
        BucketTable(
            settings: BucketSettings(), restoring: entries.map { StoredBucketEntry(aor: bob, entry: $0) })
    }

    @Test func `is restored from the store, and a user without entries takes no place`() {
        var table = table(entry(1), entry(2))
        #expect(table.entryCount == 2 && table.entries(of: bob).map(\.callRef.rawValue) == [1, 2])
        #expect(table.unread(device, of: bob) == 2 && table.hasMissedCalls(device, of: bob))
        #expect(!table.hasMissedCalls(DeviceID(rawValue: 6), of: bob))
        let changes = table.change(bob) { bucket, _ in bucket.deviceRemoved(device) }
        #expect(!changes.isEmpty && table.entryCount == 0 && table.entries(of: bob).isEmpty)
    }

    @Test func `events that do not concern a user without missed calls change nothing`() {
        var table = table()
        let changes = table.change(bob) { bucket, _ in bucket.deviceRemoved(device) }
        #expect(changes.isEmpty)
        #expect(table.entryCount == 0)
    }

    @Test func `a list is owed to devices that have been back since the call`() {
        let table = table(entry(1))
        #expect(table.owed { _, _ in true }.map(\.device) == [device])
        #expect(table.owed { _, _ in false }.isEmpty)
        #expect(table.owed { $0 == device && $1 == date }.count == 1)
    }

    @Test func `users with calls that are too old are found`() {
        let table = table(entry(1))
        let age = BucketSettings().maximumAge
        #expect(table.usersWithOld(now: date + (age - .seconds(1))).isEmpty)
        #expect(table.usersWithOld(now: date + (age + .seconds(1))) == [bob])
    }
}
