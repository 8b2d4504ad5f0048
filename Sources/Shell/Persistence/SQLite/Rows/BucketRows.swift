import Addressing
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Storage
import Timekeeping

/// The SQL statements for missed calls.
extension Connection {
    func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(SQLError) {
        try run("INSERT OR REPLACE INTO bucket_entry VALUES (?,?,?,?,?,?,?,?,?)") { values in
            values.add(entry.callRef.rawValue)
            values.add(aor.user)
            values.add(aor.host)
            values.add(entry.caller)
            values.add(entry.date)
            values.add(DeviceNumbers(devices: entry.devices))
            values.add(entry.isOver)
            values.add(DeviceNumbers(devices: entry.told))
            values.add(entry.broughtBy.rawValue)
        }
    }

    /// Writes missed calls that were journaled but not stored before the restart.
    func write(_ changes: [StoredBucketChange]) throws(SQLError) {
        try transaction { () throws(SQLError) in
            for change in changes { _ = try apply(.engine(.bucket(change))) }
        }
    }

    func removeBucketEntry(_ callRef: CallRef) throws(SQLError) {
        try run("DELETE FROM bucket_entry WHERE call_ref = ?", callRef.rawValue)
    }

    func bucketEntries() throws(SQLError) -> [StoredBucketEntry] {
        try values(of: try statement("SELECT * FROM bucket_entry")) { $0.storedBucketEntry }
    }
}

extension Statement {
    /// The missed call in the current row; `nil` if the row is malformed.
    fileprivate var storedBucketEntry: StoredBucketEntry? {
        let devices = text(5).split(separator: ",").compactMap { UInt64($0).map(DeviceID.init(rawValue:)) }
        guard !devices.isEmpty else { return nil }
        // Rows of earlier versions lack the caller, so each row gets its own caller.
        let number = UInt64(bitPattern: integer(8))
        let caller =
            number == 0 ? Caller(hash: UInt64(bitPattern: integer(0)), isTrusted: true) : Caller(rawValue: number)
        let entry = BucketEntry(
            callRef: CallRef(rawValue: UInt64(bitPattern: integer(0))), caller: byteString(3),
            date: UnixTime(milliseconds: integer(4)), broughtBy: caller,
            devices: devices,
            told: text(7).split(separator: ",").compactMap { UInt64($0).map(DeviceID.init(rawValue:)) },
            isOver: integer(6) != 0)
        return StoredBucketEntry(
            aor: AddressOfRecord(user: byteString(1), host: byteString(2)), entry: entry)
    }
}
