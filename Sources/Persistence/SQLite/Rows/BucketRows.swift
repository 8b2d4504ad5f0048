import Addressing
import ProxyCore
import PushDelivery
import Registration
import Storage
import Timekeeping

/// Missed calls as SQL.
extension Connection {
    func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(SQLError) {
        try run(
            "INSERT OR REPLACE INTO bucket_entry VALUES (?,?,?,?,?,?,?,?)", entry.callRef, aor.user, aor.host,
            entry.caller, entry.date, DeviceNumbers(devices: entry.devices), entry.isOver,
            DeviceNumbers(devices: entry.told))
    }

    func removeBucketEntry(_ callRef: CallRef) throws(SQLError) {
        try run("DELETE FROM bucket_entry WHERE call_ref = ?", callRef)
    }

    func bucketEntries() throws(SQLError) -> [StoredBucketEntry] {
        try values(of: try statement("SELECT * FROM bucket_entry")) { $0.storedBucketEntry }
    }
}

extension Statement {
    /// The row as a value; `nil` for one that this program cannot have written.
    fileprivate var storedBucketEntry: StoredBucketEntry? {
        guard let callRef = UInt64(text(0), radix: 16) else { return nil }
        let devices = text(5).split(separator: ",").compactMap { UInt64($0).map(DeviceID.init(rawValue:)) }
        guard !devices.isEmpty else { return nil }
        let entry = BucketEntry(
            callRef: CallRef(rawValue: callRef), caller: byteString(3), date: UnixTime(milliseconds: integer(4)),
            devices: devices,
            told: text(7).split(separator: ",").compactMap { UInt64($0).map(DeviceID.init(rawValue:)) },
            isOver: integer(6) != 0)
        return StoredBucketEntry(
            aor: AddressOfRecord(user: byteString(1), host: byteString(2)), entry: entry)
    }
}
