import Bytes
import PushDelivery
import Registration
import Storage
import Timekeeping

/// The SQL statements for the timeline.
extension Connection {
    func write(_ record: TimelineRecord) throws(SQLError) {
        let (steps, marks) = (record.steps, record.marks)
        let counts = record.wasAccepted && !marks.isOutsideBadge
        try run(
            """
            INSERT INTO push_record (user, domain, call_id, call_ref, kind, calls, device, requested_at, omission, app, code,
            delivery, tries, answer, status, reason, dead_since, provider_id, sent, answered, registered, invited, rang,
            ended, ending, ending_status, received, followed, read, sign, source, peer)
            VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
            """
        ) { values in
            values.add(record.user)
            values.add(record.host)
            values.add(record.callID)
            values.add(orNull: record.callRef)
            values.add(record.kind.rawValue)
            values.add(record.calls)
            values.add(record.device)
            values.add(record.requestedAt)
            values.add(word: record.omission)
            values.add(record.app)
            values.add(orNull: record.code)
            values.add(record.delivery.rawValue)
            values.add(record.tries)
            values.add(word: record.answer)
            values.add(number: record.status)
            values.add(record.reason)
            values.add(orNull: record.deadSince)
            values.add(record.providerID)
            values.add(number: steps.sent)
            values.add(number: steps.answered)
            values.add(number: steps.registered)
            values.add(number: steps.invited)
            values.add(number: steps.rang)
            values.add(number: steps.ended)
            values.add(word: record.end)
            values.add(number: record.endStatus)
            values.add(orNull: marks.received)
            values.add(orNull: marks.followed)
            values.add(number: marks.read?.milliseconds ?? (counts ? nil : 0))
            values.add(word: record.sign)
            values.add(record.source)
            values.add(record.peer)
        }
    }

    private static let columns = """
        user, domain, call_id, call_ref, kind, calls, device, requested_at, omission, app, code, delivery, tries, answer,
        status, reason, dead_since, provider_id, sent, answered, registered, invited, rang, ended, ending, ending_status,
        received, followed, read, sign, source, peer
        """

    /// Deletes old timeline records that the report of wakes has counted. Only the records with the lowest numbers are
    /// deleted, so that the highest and the lowest number give the number of records.
    ///
    /// The deletion stops at the first record that must be kept. A record with a later date than the newest record is
    /// skipped, because it was written while the clock was ahead.
    func pruneTimeline(before date: UnixTime, keeping count: Int, limit: Int) throws(SQLError) {
        let last = try statement("SELECT id, requested_at FROM push_record ORDER BY id DESC LIMIT 1")
        defer { last.reset() }
        guard try last.step() else { return }
        let (lastID, newest) = (last.integer(0), last.integer(1))
        let surplus = lastID - Int64(count)
        let rows = try statement("SELECT id, requested_at FROM push_record ORDER BY id LIMIT ?", with: limit)
        defer { rows.reset() }
        var old: Int64?
        while try rows.step() {
            let (id, requestedAt) = (rows.integer(0), rows.integer(1))
            if id <= surplus || requestedAt < date.milliseconds { old = id } else if requestedAt <= newest { break }
        }
        guard let old else { return }
        try countWakes(upTo: old)
        try run("DELETE FROM push_record WHERE id <= ?", old)
        if old >= lastID { try timelineIsEmpty() }
    }

    /// Returns the last records about the subject, oldest first, including refused requests. With domains, only records
    /// of users in the domains are returned; `nil` means all domains.
    func timeline(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]? = nil
    ) throws(SQLError) -> [TimelineRecord] {
        let refusals = try refusals(of: subject, limit: limit, in: domains)
        let records = try pushes(of: subject, limit: limit, in: domains)
        guard !refusals.isEmpty else { return records }
        return (records + refusals).sorted { $0.requestedAt < $1.requestedAt }.suffix(limit)
    }

    private func pushes(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]?
    ) throws(SQLError) -> [TimelineRecord] {
        let selection = "SELECT \(Self.columns) FROM push_record WHERE \(DomainList.contains("domain", 1)) AND"
        let order = "ORDER BY id DESC LIMIT ?2"
        let domains = domains.map(DomainList.init)
        // Searches by user or call read the table from its end, because an index would cost time for each call.
        let rows =
            switch subject {
            case .user(let aor):
                try statement(
                    "\(selection) user = ?3 AND domain = ?4 \(order)", with: domains, limit, aor.user, aor.host)
            case .callID(let callID):
                try statement("\(selection) call_id = ?3 AND call_id != '' \(order)", with: domains, limit, callID)
            case .call(let callRef): try statement("\(selection) call_ref = ?3 \(order)", with: domains, limit, callRef)
            case .push(let code): try statement("\(selection) code = ?3 \(order)", with: domains, limit, code)
            case .source(let address):
                try statement(
                    "\(selection) substr(source, 1, ?3) = ?4 \(order)", with: domains, limit, address.count + 1,
                    ByteString("\(address):"))
            case .number(let user):
                try statement(
                    """
                    \(selection) (user = ?3 OR peer != '' AND (substr(peer, 1, length(?3) + 5) = 'sip:' || ?3 || '@'
                    OR substr(peer, 1, length(?3) + 6) = 'sips:' || ?3 || '@' OR peer = 'tel:' || ?3)) \(order)
                    """, with: domains, limit, user)
            }
        return try values(of: rows) { $0.storedTimelineRecord }.reversed()
    }
}

extension Statement {
    /// The timeline record in the current row; `nil` if the row is malformed.
    fileprivate var storedTimelineRecord: TimelineRecord? {
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
