import Addressing
import PushDelivery
import Storage
import Timekeeping

/// The SQL statements for apps' reports about their pushes.
extension Connection {
    /// Records an app's report about a push; a repeated report keeps the time of the first report.
    func note(_ mark: PushMark, of code: PushCode, device: DeviceID, at date: UnixTime) throws(SQLError) -> Bool {
        let column = mark.rawValue
        try statement(
            "UPDATE push_record SET \(column) = coalesce(nullif(\(column), 0), ?1) WHERE code = ?2 AND device = ?3",
            with: date, code, device
        ).run()
        return changes > 0
    }

    /// Records that the device has read all pushes that count in its badge, up to 10,000 rows. A device has more than
    /// 10,000 unread pushes only if its app never reports that a push was read. Above 10,000 unread pushes, the oldest
    /// pushes no longer count in the badge.
    func noteAllRead(by device: DeviceID, at date: UnixTime) throws(SQLError) {
        try run(
            """
            UPDATE push_record SET read = ?1 WHERE id IN (
                SELECT id FROM push_record INDEXED BY push_record_unread
                WHERE read IS NULL AND device = ?2
                ORDER BY requested_at DESC LIMIT 10000)
            """, date, device)
    }

    /// Returns pushes that the provider accepted and the device has not read, sorted by device and then by request
    /// time. The query for unread pushes reads only an index.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) throws(SQLError) -> [UnreadPush] {
        // The first page begins at SQLite's smallest number, which is lower than any device number.
        let rows = try statement(
            """
            SELECT device, requested_at, code, kind, call_ref FROM push_record INDEXED BY push_record_unread
            WHERE read IS NULL AND requested_at >= ? AND (device, requested_at, code) > (?, ?, ?)
            ORDER BY device, requested_at, code
            """, with: date, push.map(\.device.rawValue) ?? 1 << 63, push?.requestedAt ?? UnixTime(milliseconds: .min),
            push?.code.description ?? "")
        return try values(of: rows, limit: limit) { $0.storedUnreadPush }
    }
}
