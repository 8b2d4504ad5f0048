package import Addressing
import Collections
package import PushDelivery
package import Registration
package import Timekeeping

/// The lists of missed calls of all users (buckets); a user without missed calls has no list.
package struct BucketTable: Sendable {
    private var buckets = PlacedTable<AddressOfRecord, MissedCallBucket>(empty: MissedCallBucket())
    /// The number of missed calls of all users together.
    package private(set) var entryCount: Int
    package var settings: BucketSettings

    package init(settings: BucketSettings, restoring rows: [StoredBucketEntry]) {
        self.settings = settings
        entryCount = rows.count
        for (aor, rows) in Dictionary(grouping: rows, by: \.aor) {
            buckets[buckets.madePlace(of: aor)] = MissedCallBucket(restoring: rows.map(\.entry))
        }
    }

    /// The user's missed calls, oldest first.
    package func entries(of aor: AddressOfRecord) -> [BucketEntry] { buckets[aor]?.entries ?? [] }

    /// Whether the device has missed calls that no accepted list has reported yet.
    package func hasMissedCalls(_ device: DeviceID, of aor: AddressOfRecord) -> Bool {
        buckets.place(of: aor).map { buckets[$0].hasMissedCalls(device) } == true
    }

    package func unread(_ device: DeviceID, of aor: AddressOfRecord) -> Int {
        buckets[aor]?.unread(of: device) ?? 0
    }

    /// The devices that registered after a missed call but have not got their list, because the push provider did not
    /// accept the list. The devices are returned in the same order each time.
    package func owed(isBack: (DeviceID, UnixTime) -> Bool) -> [(device: DeviceID, aor: AddressOfRecord)] {
        var owed: [(device: DeviceID, aor: AddressOfRecord)] = []
        for (aor, bucket) in buckets.all {
            for entry in bucket.entries where entry.isOver {
                for device in entry.devices where isBack(device, entry.date) {
                    owed.append((device, aor))
                }
            }
        }
        return owed.sorted { $0.device.rawValue < $1.device.rawValue }
    }

    /// The users with missed calls above the maximum age.
    func usersWithOld(now: UnixTime) -> [AddressOfRecord] {
        buckets.all.filter { $0.value.hasOld(settings, now: now) }.map(\.key)
    }

    /// Takes over a user's missed calls as the store has them; see ``MissedCallBucket/adopt(_:now:)``.
    package mutating func adopt(_ rows: [StoredBucketEntry], of aor: AddressOfRecord, now: UnixTime) {
        guard buckets.place(of: aor) != nil || !rows.isEmpty else { return }
        let place = buckets.madePlace(of: aor)
        entryCount -= buckets[place].count
        buckets[place].adopt(rows.map(\.entry), now: now)
        entryCount += buckets[place].count
        if buckets[place].isEmpty { buckets.remove(at: place) }
    }

    /// Applies an event to a user's list of missed calls, and returns the changes for the store.
    package mutating func change(
        _ aor: AddressOfRecord, _ event: (inout MissedCallBucket, BucketSettings) -> [BucketChange]
    ) -> [BucketChange] {
        let changes: [BucketChange]
        if let place = buckets.place(of: aor) {
            let (made, added, isEmpty) = Self.tell(&buckets[place], event, settings)
            changes = made
            entryCount += added
            if isEmpty { buckets.remove(at: place) }
        } else {
            // The list of a user is created only when an event adds a missed call, because most events do not change an
            // empty list.
            var bucket = MissedCallBucket()
            let (made, added, isEmpty) = Self.tell(&bucket, event, settings)
            changes = made
            entryCount += added
            if !isEmpty { buckets[buckets.madePlace(of: aor)] = bucket }
        }
        return changes
    }

    /// Applies an event to a list of missed calls; the list is `inout` to avoid copies.
    private static func tell(
        _ bucket: inout MissedCallBucket, _ event: (inout MissedCallBucket, BucketSettings) -> [BucketChange],
        _ settings: BucketSettings
    ) -> (changes: [BucketChange], added: Int, isEmpty: Bool) {
        let count = bucket.count
        let changes = event(&bucket, settings)
        return (changes, bucket.count - count, bucket.isEmpty)
    }
}
