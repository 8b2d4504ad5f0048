import Addressing
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Timekeeping

extension BucketEntry {
    /// Binds all values of the row, in the order of the table's columns.
    func add(of aor: AddressOfRecord, to values: inout ParameterList<some SQLParameters>) {
        values.add(callRef.rawValue)
        values.add(aor.user)
        values.add(aor.host)
        values.add(caller)
        values.add(date)
        values.add(DeviceNumbers(devices: devices))
        values.add(isOver)
        values.add(DeviceNumbers(devices: told))
        values.add(broughtBy.rawValue)
    }
}

extension StoredRow {
    /// The missed call in the current row; `nil` if the row is malformed.
    var storedBucketEntry: StoredBucketEntry? {
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
