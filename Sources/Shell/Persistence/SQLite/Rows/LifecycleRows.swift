import Addressing
import PushDelivery
import Storage
import Timekeeping

/// What apps say of their pushes as SQL.
extension Connection {
    /// Notes what an app says of a push. What it said first stays.
    ///
    /// - Returns: whether there is such a push.
    func note(_ mark: PushMark, of code: PushCode, device: DeviceID, at date: UnixTime) throws(SQLError) -> Bool {
        let column = mark.rawValue
        try statement(
            "UPDATE push_record SET \(column) = coalesce(nullif(\(column), 0), ?1) WHERE code = ?2 AND device = ?3",
            with: date, code, device
        ).run()
        return changes > 0
    }

    /// Notes that all pushes of the device that count in its badge were read. It looks at a limited number, which only
    /// phones exceed that never read anything, and their pushes do not count any more when they are too old.
    func noteAllRead(by device: DeviceID, at date: UnixTime) throws(SQLError) {
        try run(
            """
            UPDATE push_record SET read = ?1 WHERE id IN (
                SELECT id FROM push_record INDEXED BY push_record_unread
                WHERE read IS NULL AND device = ?2
                ORDER BY requested_at DESC LIMIT 10000)
            """, date, device)
    }

    /// Accepted pushes that were not read, those of each device in the order in which they were asked for. Reading an
    /// index is enough for this.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) throws(SQLError) -> [UnreadPush] {
        // The smallest number that SQLite knows stands before the first device.
        let rows = try statement(
            """
            SELECT device, requested_at, code, kind, call_ref FROM push_record INDEXED BY push_record_unread
            WHERE read IS NULL AND requested_at >= ? AND (device, requested_at, code) > (?, ?, ?)
            ORDER BY device, requested_at, code
            """, with: date, push.map(\.device.rawValue) ?? 1 << 63, push?.requestedAt ?? UnixTime(milliseconds: .min),
            push?.code.description ?? "")
        return try values(of: rows, limit: limit) { rows -> UnreadPush? in
            guard let code = PushCode(rows.text(2)) else { return nil }
            return UnreadPush(
                code: code, matter: rows.storedMatter(kind: 3, callRef: 4),
                device: rows.deviceID(0), requestedAt: UnixTime(milliseconds: rows.integer(1)))
        }
    }
}

extension Statement {
    fileprivate func storedMatter(kind: Int, callRef: Int) -> UnreadPushes.Matter {
        let kind = TimelineRecord.Kind(rawValue: text(kind))
        if kind == .missedCalls { return .list }
        guard kind == .call, let callRef = UInt64(text(callRef), radix: 16) else { return .other }
        return .call(CallRef(rawValue: callRef))
    }
}
