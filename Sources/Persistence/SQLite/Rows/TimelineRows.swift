import Bytes
import PushDelivery
import Registration
import Storage
import Timekeeping

/// The timeline as SQL.
extension Connection {
    func write(_ record: TimelineRecord) throws(SQLError) {
        let write = try statement(Self.insertion)
        write.bind(1, text: record.user)
        write.bind(2, text: record.host)
        write.bind(3, text: record.callID)
        write.bind(4, optional: record.callRef?.description)
        write.bind(5, text: record.kind.rawValue)
        write.bind(6, integer: Int64(record.calls))
        write.bind(7, integer: Int64(bitPattern: record.device))
        write.bind(8, integer: record.requestedAt.milliseconds)
        write.bind(9, optional: record.omission?.rawValue)
        write.bind(10, text: record.app)
        write.bind(11, optional: record.code?.description)
        write.bind(12, text: record.delivery.rawValue)
        write.bind(13, integer: Int64(record.tries))
        write.bind(14, optional: record.answer?.rawValue)
        write.bind(15, optional: record.status)
        write.bind(16, text: record.reason)
        write.bind(17, optional: record.deadSince?.milliseconds)
        write.bind(18, text: record.providerID)
        let steps = record.steps
        write.bind(19, optional: steps.sent)
        write.bind(20, optional: steps.answered)
        write.bind(21, optional: steps.registered)
        write.bind(22, optional: steps.invited)
        write.bind(23, optional: steps.rang)
        write.bind(24, optional: steps.ended)
        write.bind(25, optional: record.end?.rawValue)
        write.bind(26, optional: record.endStatus)
        write.bind(27, optional: record.marks.received?.milliseconds)
        write.bind(28, optional: record.marks.followed?.milliseconds)
        let counts = record.wasAccepted && !record.marks.isOutsideBadge
        write.bind(29, optional: record.marks.read?.milliseconds ?? (counts ? nil : 0))
        write.bind(30, optional: record.sign?.rawValue)
        try write.run()
    }

    private static let columns = """
        user, domain, call_id, call_ref, kind, calls, device, requested_at, omission, app, code, delivery, tries, answer,
        status, reason, dead_since, provider_id, sent, answered, registered, invited, rang, ended, ending, ending_status,
        received, followed, read, sign
        """
    private static let insertion =
        "INSERT INTO push_record (\(columns)) VALUES (?\(String(repeating: ",?", count: 29)))"

    /// Rows are only ever deleted from the front, so their numbers tell how many there are.
    func pruneTimeline(before date: UnixTime, keeping count: Int, limit: Int) throws(SQLError) {
        let delete = try statement(
            """
            DELETE FROM push_record
            WHERE id IN (SELECT id FROM push_record ORDER BY id LIMIT ?)
            AND (requested_at < ? OR id <= (SELECT max(id) FROM push_record) - ?)
            """)
        delete.bind(1, integer: Int64(limit))
        delete.bind(2, integer: date.milliseconds)
        delete.bind(3, integer: Int64(count))
        try delete.run()
    }

    /// The last records of the subject, the oldest first.
    func timeline(of subject: TimelineSubject, limit: Int) throws(SQLError) -> [TimelineRecord] {
        let (condition, texts): (String, [ByteString]) =
            switch subject {
            case .user(let aor): ("user = ? AND domain = ?", [aor.user, aor.host])
            case .callID(let callID): ("call_id = ? AND call_id != ''", [callID])
            // There is no index for that, as each call would have to be written into it: this reads through the table.
            case .call(let callRef): ("call_ref = ?", [ByteString(callRef.description)])
            case .push(let code): ("code = ?", [ByteString(code.description)])
            }
        let rows = try statement(
            "SELECT \(Self.columns), id FROM push_record WHERE \(condition) ORDER BY id DESC LIMIT ?")
        for (index, text) in texts.enumerated() { rows.bind(index + 1, text: text) }
        rows.bind(texts.count + 1, integer: Int64(limit))
        return try values(of: rows) { $0.storedTimelineRecord }.reversed()
    }
}

extension Statement {
    /// `nil` for a row that nobody of ours has written.
    fileprivate var storedTimelineRecord: TimelineRecord? {
        guard let kind = TimelineRecord.Kind(rawValue: text(4)), let calls = Int(exactly: integer(5)),
            let delivery = TimelineRecord.Delivery(rawValue: text(11)), let tries = Int(exactly: integer(12))
        else { return nil }
        let callRef = optionalText(3).flatMap { UInt64($0, radix: 16) }.map(CallRef.init(rawValue:))
        var record = TimelineRecord(
            id: .init(rawValue: UInt64(bitPattern: integer(30))), kind: kind, user: byteString(0),
            host: byteString(1), device: UInt64(bitPattern: integer(6)), callRef: callRef, callID: byteString(2),
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
        return record
    }

    func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }

    private func number<Number: FixedWidthInteger>(_ column: Int) -> Number? {
        isNull(column) ? nil : Number(exactly: integer(column))
    }

    /// `nil` too for 0.
    private func date(_ column: Int) -> UnixTime? {
        integer(column) == 0 ? nil : UnixTime(milliseconds: integer(column))
    }

    func bind(_ index: Int, optional value: String?) {
        if let value { bind(index, text: value) } else { bindNull(index) }
    }

    fileprivate func bind<Number: FixedWidthInteger>(_ index: Int, optional value: Number?) {
        if let value { bind(index, integer: Int64(clamping: value)) } else { bindNull(index) }
    }
}
