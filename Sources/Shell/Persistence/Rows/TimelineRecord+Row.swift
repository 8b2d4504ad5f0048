import Bytes
import PushDelivery
import Registration
import Timekeeping

extension TimelineRecord {
    /// Binds all values of the row, in the order of the table's columns.
    func add(to values: inout ParameterList<some SQLParameters>) {
        let counts = wasAccepted && !marks.isOutsideBadge
        values.add(user)
        values.add(host)
        values.add(callID)
        values.add(orNull: callRef)
        values.add(kind.rawValue)
        values.add(calls)
        values.add(device)
        values.add(requestedAt)
        values.add(word: omission)
        values.add(app)
        values.add(orNull: code)
        values.add(delivery.rawValue)
        values.add(tries)
        values.add(word: answer)
        values.add(number: status)
        values.add(reason)
        values.add(orNull: deadSince)
        values.add(providerID)
        values.add(number: steps.sent)
        values.add(number: steps.answered)
        values.add(number: steps.registered)
        values.add(number: steps.invited)
        values.add(number: steps.rang)
        values.add(number: steps.ended)
        values.add(word: end)
        values.add(number: endStatus)
        values.add(orNull: marks.received)
        values.add(orNull: marks.followed)
        values.add(number: marks.read?.milliseconds ?? (counts ? nil : 0))
        values.add(word: sign)
        values.add(source)
        values.add(peer)
    }
}

extension StoredRow {
    /// The timeline record in the current row; `nil` if the row is malformed.
    var storedTimelineRecord: TimelineRecord? {
        guard let kind = TimelineRecord.Kind(rawValue: text(4)), let calls = Int(exactly: integer(5)),
            let delivery = TimelineRecord.Delivery(rawValue: text(11)), let tries = Int(exactly: integer(12))
        else { return nil }
        let callRef = optionalText(3).flatMap { UInt64($0, radix: 16) }.map(CallRef.init(rawValue:))
        // The record gets the number 0, because record numbers are valid only in the run that created the record.
        var record = TimelineRecord(
            id: .init(rawValue: 0), kind: kind, user: byteString(0),
            host: byteString(1), device: deviceID(6), callRef: callRef, callID: byteString(2),
            calls: calls, requestedAt: UnixTime(milliseconds: integer(7)),
            omission: optionalText(8).flatMap(TimelineRecord.Omission.init(rawValue:)),
            code: optionalText(10).flatMap { PushCode($0) }, app: text(9))
        record.delivery = delivery
        record.tries = tries
        record.answer = optionalText(13).flatMap(TimelineRecord.Answer.init(rawValue:))
        record.status = number(14)
        record.reason = text(15)
        record.deadSince = isNull(16) ? nil : UnixTime(milliseconds: integer(16))
        record.providerID = byteString(17)
        record.steps.sent = number(18)
        record.steps.answered = number(19)
        record.steps.registered = number(20)
        record.steps.invited = number(21)
        record.steps.rang = number(22)
        record.steps.ended = number(23)
        record.end = optionalText(24).flatMap(TimelineRecord.End.init(rawValue:))
        record.endStatus = number(25)
        record.marks.received = date(26)
        record.marks.followed = date(27)
        record.marks.read = date(28)
        record.sign = optionalText(29).flatMap(TimelineRecord.SignOfLife.init(rawValue:))
        record.source = byteString(30)
        record.peer = byteString(31)
        return record
    }

    private func number<Number: FixedWidthInteger>(_ column: Int) -> Number? {
        isNull(column) ? nil : Number(exactly: integer(column))
    }

    /// Reads a column with milliseconds since 1970 as a time; `nil` for NULL and for 0.
    private func date(_ column: Int) -> UnixTime? {
        integer(column) == 0 ? nil : UnixTime(milliseconds: integer(column))
    }
}
