import Addressing
import Bytes
import PostgreSQLClient
import PushDelivery
import Registration
import Timekeeping

/// The SQL statements for the timeline, refused requests, and apps' reports about pushes.
extension PostgreSQLTables {
    func write(_ record: TimelineRecord) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO push_record VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,
            $22,$23,$24,$25,$26,$27,$28,$29,$30,$31,$32)
            """
        ) { record.add(to: &$0) }
    }

    /// Deletes old timeline records that the report of wakes has counted: see `Connection.pruneTimeline`.
    func pruneTimeline(before date: UnixTime, keeping count: Int, limit: Int) throws(PostgreSQLError) {
        let newest = try rows("SELECT id, requested_at FROM push_record ORDER BY id DESC LIMIT 1")
        guard newest.count > 0 else { return }
        let (lastID, newestDate) = (newest[0].integer(0), newest[0].integer(1))
        let surplus = lastID - Int64(count)
        let rows = try rows("SELECT id, requested_at FROM push_record ORDER BY id LIMIT $1", limit)
        var old: Int64?
        for index in 0..<rows.count {
            let (id, requestedAt) = (rows[index].integer(0), rows[index].integer(1))
            if id <= surplus || requestedAt < date.milliseconds { old = id } else if requestedAt <= newestDate { break }
        }
        guard let old else { return }
        try countWakes(upTo: old)
        try send("DELETE FROM push_record WHERE id <= $1", old)
    }

    func timeline(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]?
    ) throws -> [TimelineRecord] {
        let refusals = try refusals(of: subject, limit: limit, in: domains)
        let records = try pushes(of: subject, limit: limit, in: domains)
        guard !refusals.isEmpty else { return records }
        return (records + refusals).sorted { $0.requestedAt < $1.requestedAt }.suffix(limit)
    }

    private func pushes(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]?
    ) throws(PostgreSQLError) -> [TimelineRecord] {
        let condition = DomainArray.contains("domain", 1)
        let selection = "SELECT \(Columns.pushRecord) FROM push_record WHERE \(condition) AND"
        let order = "ORDER BY id DESC LIMIT $2"
        let domains = domains.map(DomainArray.init)
        let rows =
            switch subject {
            case .user(let aor):
                try rows("\(selection) username = $3 AND domain = $4 \(order)", domains, limit, aor.user, aor.host)
            case .callID(let callID):
                try rows("\(selection) call_id = $3 AND call_id != '' \(order)", domains, limit, callID)
            case .call(let callRef): try rows("\(selection) call_ref = $3 \(order)", domains, limit, callRef)
            case .push(let code): try rows("\(selection) code = $3 \(order)", domains, limit, code)
            case .source(let address):
                try rows("\(selection) \(Self.startsWith("source", 3)) \(order)", domains, limit, Self.prefix(address))
            case .number(let user):
                try rows(
                    """
                    \(selection) (username = $3 OR \(Self.startsWith("peer", 4)) OR \(Self.startsWith("peer", 5))
                    OR peer = $6) \(order)
                    """, domains, limit, user, ByteString("sip:\(user)@"), ByteString("sips:\(user)@"),
                    ByteString("tel:\(user)"))
            }
        return rows.values { $0.storedTimelineRecord }.reversed()
    }

    /// Returns the SQL condition that the bytes of the column begin with the bytes of a parameter.
    private static func startsWith(_ column: String, _ parameter: Int) -> String {
        "substr(\(column), 1, length($\(parameter)::bytea)) = $\(parameter)"
    }

    private static func prefix(_ address: ByteString) -> ByteString { ByteString("\(address):") }

    // MARK: Refused requests

    func writeRefused(_ record: TimelineRecord) throws(PostgreSQLError) {
        try send("INSERT INTO refused_request VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)") {
            record.addRefusal(to: &$0)
        }
    }

    func pruneRefused(before date: UnixTime) throws(PostgreSQLError) {
        for share in RefusalShare.allCases {
            try send(
                """
                DELETE FROM refused_request WHERE share = $1 AND (requested_at < $2 OR id <= coalesce(
                    (SELECT id FROM refused_request WHERE share = $1 ORDER BY id DESC LIMIT 1 OFFSET $3), 0))
                """, share.rawValue, date, share.records)
        }
    }

    func refusals(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]?
    ) throws -> [TimelineRecord] {
        let condition = DomainArray.contains("domain", 1)
        let selection = "SELECT \(Columns.refusedRequest) FROM refused_request WHERE \(condition) AND"
        let order = "ORDER BY id DESC LIMIT $2"
        let domains = domains.map(DomainArray.init)
        let rows: PostgreSQLRows
        switch subject {
        case .user(let aor):
            rows = try self.rows(
                "\(selection) (username = $3 AND domain = $4 OR peer IN ($5, $6)) \(order)", domains, limit, aor.user,
                aor.host, ByteString("sip:\(aor.user)@\(aor.host)"), ByteString("sips:\(aor.user)@\(aor.host)"))
        case .callID(let callID):
            rows = try self.rows("\(selection) call_id = $3 AND call_id != '' \(order)", domains, limit, callID)
        case .source(let address):
            rows = try self.rows(
                "\(selection) \(Self.startsWith("source", 3)) \(order)", domains, limit, Self.prefix(address))
        case .number(let user): rows = try self.rows("\(selection) username = $3 \(order)", domains, limit, user)
        case .call, .push: return []
        }
        return rows.values { $0.storedRefusal }.reversed()
    }

    // MARK: Reports of apps

    /// Records an app's report about a push; a repeated report keeps the time of the first report.
    ///
    /// - Returns: the statement's number; the statement changes no row for an unknown push.
    func note(_ mark: PushMark, of code: PushCode, device: DeviceID, at date: UnixTime) throws(PostgreSQLError) -> Int {
        switch mark {
        case .received:
            try send(
                "UPDATE push_record SET received = coalesce(nullif(received, 0), $1) WHERE code = $2 AND device = $3",
                date, code, device)
        case .followed:
            try send(
                "UPDATE push_record SET followed = coalesce(nullif(followed, 0), $1) WHERE code = $2 AND device = $3",
                date, code, device)
        case .read:
            try send(
                "UPDATE push_record SET read = coalesce(nullif(read, 0), $1) WHERE code = $2 AND device = $3",
                date, code, device)
        }
    }

    /// Records that the device has read all pushes that count in its badge, up to 10,000 rows.
    func noteAllRead(by device: DeviceID, at date: UnixTime) throws(PostgreSQLError) {
        try send(
            """
            UPDATE push_record SET read = $1 WHERE id IN (
                SELECT id FROM push_record WHERE read IS NULL AND device = $2 ORDER BY requested_at DESC LIMIT 10000)
            """, date, device)
    }

    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) throws -> [UnreadPush] {
        // The first page begins at the lowest number, which is lower than any device number.
        try rows(
            """
            SELECT device, requested_at, code, kind, call_ref FROM push_record
            WHERE read IS NULL AND requested_at >= $1 AND (device, requested_at, code) > ($2, $3, $4)
            ORDER BY device, requested_at, code LIMIT $5
            """, date, push.map(\.device.rawValue) ?? 1 << 63, push?.requestedAt ?? UnixTime(milliseconds: .min),
            push?.code.description ?? "", limit
        ).values { $0.storedUnreadPush }
    }
}
