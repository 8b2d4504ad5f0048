import Bytes
import ProxyCore
import PushDelivery
import Registration
import Storage
import Timekeeping

/// Missed calls as SQL.
extension Connection {
    func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO bucket_entry VALUES (?,?,?,?,?,?,?,?)")
        write.bind(1, text: entry.callRef.description)
        write.bind(2, text: aor.user)
        write.bind(3, text: aor.host)
        write.bind(4, text: entry.caller)
        write.bind(5, integer: entry.date.milliseconds)
        write.bind(6, text: entry.devices.map { "\($0)" }.joined(separator: ","))
        write.bind(7, integer: entry.isOver ? 1 : 0)
        write.bind(8, text: entry.told.map { "\($0)" }.joined(separator: ","))
        try write.run()
    }

    func removeBucketEntry(_ callRef: CallRef) throws(SQLError) {
        let delete = try statement("DELETE FROM bucket_entry WHERE call_ref = ?")
        delete.bind(1, text: callRef.description)
        try delete.run()
    }

    func bucketEntries() throws(SQLError) -> [StoredBucketEntry] {
        try values(of: try statement("SELECT * FROM bucket_entry")) { $0.storedBucketEntry }
    }
}

extension Statement {
    /// `nil` for a row that nobody of ours has written.
    fileprivate var storedBucketEntry: StoredBucketEntry? {
        guard let callRef = UInt64(text(0), radix: 16) else { return nil }
        let devices = text(5).split(separator: ",").compactMap { UInt64($0) }
        guard !devices.isEmpty else { return nil }
        let entry = BucketEntry(
            callRef: CallRef(rawValue: callRef), caller: byteString(3), date: UnixTime(milliseconds: integer(4)),
            devices: devices, told: text(7).split(separator: ",").compactMap { UInt64($0) }, isOver: integer(6) != 0)
        return StoredBucketEntry(
            aor: AddressOfRecord(user: byteString(1), host: byteString(2)), entry: entry)
    }
}
