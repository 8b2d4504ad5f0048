import PushDelivery
import Storage
import Timekeeping

/// Active calls as SQL, and their end if the daemon ended without a shutdown.
extension Connection {
    func writeOpenCall(_ record: TimelineRecord) throws(SQLError) {
        try run("INSERT OR REPLACE INTO open_call VALUES (?,?,?,?,?,?,?,?,?,?)") { values in
            values.add(record.id.rawValue)
            values.add(record.user)
            values.add(record.host)
            values.add(record.callID)
            values.add(orNull: record.callRef)
            values.add(record.device)
            values.add(record.requestedAt)
            values.add(word: record.omission)
            values.add(record.app)
            values.add(orNull: record.code)
        }
    }

    func removeOpenCall(_ id: RecordID) throws(SQLError) { try run("DELETE FROM open_call WHERE id = ?", id.rawValue) }

    func removeOpenCalls() throws(SQLError) { try execute("DELETE FROM open_call") }

    /// Creates records of the calls that were active when an earlier run ended without a shutdown.
    ///
    /// - Returns: the number of records.
    func cutOffOpenCalls(at date: UnixTime, isKept: Bool) throws(SQLError) -> Int {
        try transaction { () throws(SQLError) in
            let rows = try statement("SELECT * FROM open_call ORDER BY requested_at, id")
            let records = try values(of: rows) { rows in
                var record = rows.storedOpenCall
                record?.cutOff(by: date)
                return record
            }
            if isKept { for record in records { try write(record) } }
            try removeOpenCalls()
            return records.count
        }
    }
}

extension Statement {
    fileprivate var storedOpenCall: TimelineRecord? {
        let callRef = optionalText(4).flatMap { UInt64($0, radix: 16) }.map(CallRef.init(rawValue:))
        return TimelineRecord(
            id: .init(rawValue: UInt64(bitPattern: integer(0))), kind: .call, user: byteString(1), host: byteString(2),
            device: deviceID(5), callRef: callRef, callID: byteString(3),
            requestedAt: UnixTime(milliseconds: integer(6)),
            omission: optionalText(7).flatMap(TimelineRecord.Omission.init(rawValue:)),
            code: optionalText(9).flatMap { PushCode($0) }, app: text(8))
    }
}
