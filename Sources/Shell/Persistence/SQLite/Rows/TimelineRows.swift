import Bytes
import PushDelivery
import Registration
import Storage
import Timekeeping

/// The SQL statements for the timeline.
extension Connection {
    func write(_ record: TimelineRecord) throws(SQLError) {
        try run(
            """
            INSERT INTO push_record (user, domain, call_id, call_ref, kind, calls, device, requested_at, omission, app, code,
            delivery, tries, answer, status, reason, dead_since, provider_id, sent, answered, registered, invited, rang,
            ended, ending, ending_status, received, followed, read, sign, source, peer)
            VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
            """
        ) { record.add(to: &$0) }
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
