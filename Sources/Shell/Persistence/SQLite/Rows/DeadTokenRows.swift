import Bytes
import Collections
import PushDelivery
import Storage
import Timekeeping

/// The SQL statements for dead tokens.
extension Connection {
    func write(_ dead: DeadToken) throws(SQLError) {
        try run(
            "INSERT INTO dead_token (recorded_at, since, provider, param, token, source, domain) VALUES (?,?,?,?,?,?,?)",
            dead.recordedAt, dead.since, dead.token.provider.rawValue, dead.token.param, dead.token.prid,
            dead.source.rawValue, dead.domain)
    }

    /// Returns a page of the domains' dead tokens, in the order of their records.
    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) throws(SQLError) -> Page<DeadToken> {
        let rows = try statement(
            "SELECT * FROM dead_token WHERE id > ?1 AND recorded_at >= ?2 AND \(DomainList.contains("domain", 3)) ORDER BY id",
            with: Int64(clamping: cursor.number), date, domains.map(DomainList.init))
        return try page(of: rows, limit: limit) { $0.storedDeadToken }
    }

    func pruneDeadTokens(before date: UnixTime, keeping count: Int) throws(SQLError) {
        try run(
            """
            DELETE FROM dead_token WHERE recorded_at < ?
            OR id <= (SELECT id FROM dead_token ORDER BY id DESC LIMIT 1 OFFSET ?)
            """, date, count)
    }
}
