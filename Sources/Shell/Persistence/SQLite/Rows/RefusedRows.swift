import Addressing
import Bytes
import PushDelivery
import Registration
import Storage
import Timekeeping

/// The SQL statements for refused requests.
extension Connection {
    func writeRefused(_ record: TimelineRecord) throws(SQLError) {
        try run(
            """
            INSERT INTO refused_request (share, kind, user, domain, peer, source, call_id, requested_at, refusal, status, reason)
            VALUES (?,?,?,?,?,?,?,?,?,?,?)
            """
        ) { record.addRefusal(to: &$0) }
    }

    /// Deletes refused requests that are older than the given date. The oldest rows above the limit of a `RefusalShare`
    /// are deleted too.
    func pruneRefused(before date: UnixTime) throws(SQLError) {
        for share in RefusalShare.allCases {
            try run(
                """
                DELETE FROM refused_request WHERE share = ?1 AND (requested_at < ?2 OR id <= coalesce(
                    (SELECT id FROM refused_request WHERE share = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?3), 0))
                """, share.rawValue, date, share.records)
        }
    }

    /// Returns the last refused requests of the subject, oldest first. A search for a user finds requests to or from
    /// the user.
    func refusals(
        of subject: TimelineSubject, limit: Int, in domains: [ByteString]? = nil
    ) throws(SQLError) -> [TimelineRecord] {
        let selection =
            "SELECT \(Self.refusedColumns) FROM refused_request WHERE \(DomainList.contains("domain", 1)) AND"
        let order = "ORDER BY id DESC LIMIT ?2"
        let domains = domains.map(DomainList.init)
        let rows: Statement
        switch subject {
        case .user(let aor):
            let peer = ByteString("\(aor.user)@\(aor.host)")
            rows = try statement(
                "\(selection) (user = ?3 AND domain = ?4 OR peer IN ('sip:' || ?5, 'sips:' || ?5)) \(order)",
                with: domains, limit, aor.user, aor.host, peer)
        case .callID(let callID):
            rows = try statement("\(selection) call_id = ?3 AND call_id != '' \(order)", with: domains, limit, callID)
        case .source(let address):
            rows = try statement(
                "\(selection) substr(source, 1, ?3) = ?4 \(order)", with: domains, limit, address.count + 1,
                ByteString("\(address):"))
        case .number(let user): rows = try statement("\(selection) user = ?3 \(order)", with: domains, limit, user)
        case .call, .push: return []
        }
        return try values(of: rows) { $0.storedRefusal }.reversed()
    }

    private static let refusedColumns =
        "share, kind, user, domain, peer, source, call_id, requested_at, refusal, status, reason"
}
