import Addressing
import Bytes
import PushDelivery
import Registration
import Timekeeping

extension TimelineRecord {
    /// Binds the values of a refused request, in the order of ``refusedColumns``.
    func addRefusal(to values: inout ParameterList<some SQLParameters>) {
        values.add(share.rawValue)
        values.add(kind.rawValue)
        values.add(user)
        values.add(host)
        values.add(peer)
        values.add(source)
        values.add(callID)
        values.add(requestedAt)
        values.add(word: refusal)
        values.add(endStatus ?? 0)
        values.add(reason)
    }
}

extension StoredRow {
    /// The refused request in the current row; `nil` if the row is malformed.
    var storedRefusal: TimelineRecord? {
        guard let share = RefusalShare(rawValue: text(0)), let kind = TimelineRecord.Kind(rawValue: text(1)),
            let refusal = Refusal(rawValue: text(8)), let status = UInt16(exactly: integer(9))
        else { return nil }
        var record = TimelineRecord(
            id: .init(rawValue: 0), kind: kind, user: byteString(2), host: byteString(3), device: .nobody,
            callRef: nil, callID: byteString(6), requestedAt: UnixTime(milliseconds: integer(7)), omission: nil)
        record.peer = byteString(4)
        record.source = byteString(5)
        record.refused(refusal, status, share: share)
        record.reason = text(10)
        return record
    }
}
