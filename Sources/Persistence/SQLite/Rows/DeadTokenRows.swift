import Bytes
import PushDelivery
import Storage
import Timekeeping

/// Dead tokens as SQL.
extension Connection {
    func write(_ dead: DeadToken) throws(SQLError) {
        let write = try statement(
            "INSERT INTO dead_token (recorded_at, since, provider, param, token, source) VALUES (?,?,?,?,?,?)")
        write.bind(1, integer: dead.recordedAt.milliseconds)
        write.bind(2, integer: dead.since.milliseconds)
        write.bind(3, text: dead.token.provider.rawValue)
        write.bind(4, text: dead.token.param)
        write.bind(5, text: dead.token.prid)
        write.bind(6, text: dead.source.rawValue)
        try write.run()
    }

    /// In the order in which they were written.
    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int
    ) throws(SQLError) -> Page<DeadToken> {
        let rows = try statement("SELECT * FROM dead_token WHERE id > ? AND recorded_at >= ? ORDER BY id")
        rows.bind(1, integer: cursor.number)
        rows.bind(2, integer: date.milliseconds)
        return try page(of: rows, limit: limit) { $0.storedDeadToken }
    }

    func pruneDeadTokens(before date: UnixTime, keeping count: Int) throws(SQLError) {
        let delete = try statement(
            """
            DELETE FROM dead_token WHERE recorded_at < ?
            OR id <= (SELECT id FROM dead_token ORDER BY id DESC LIMIT 1 OFFSET ?)
            """)
        delete.bind(1, integer: date.milliseconds)
        delete.bind(2, integer: Int64(count))
        try delete.run()
    }
}

extension Statement {
    /// `nil` for a row that nobody of ours has written.
    fileprivate var storedDeadToken: DeadToken? {
        guard let provider = PushProvider(rawValue: text(3)), let source = DeadToken.Source(rawValue: text(6)) else {
            return nil
        }
        return DeadToken(
            token: PushToken(provider: provider, param: byteString(4), prid: byteString(5)),
            since: UnixTime(milliseconds: integer(2)), recordedAt: UnixTime(milliseconds: integer(1)), source: source)
    }
}
