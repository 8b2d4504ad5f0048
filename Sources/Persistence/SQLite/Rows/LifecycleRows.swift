import Addressing
import PushDelivery
import Storage
import Timekeeping

/// What apps say of their pushes as SQL.
extension Connection {
    /// The first word counts.
    ///
    /// - Returns: whether there is such a push.
    func note(_ mark: PushMark, of code: PushCode, device: UInt64, at date: UnixTime) throws(SQLError) -> Bool {
        let column = mark.rawValue
        let write = try statement(
            "UPDATE push_record SET \(column) = coalesce(nullif(\(column), 0), ?1) WHERE code = ?2 AND device = ?3")
        write.bind(1, integer: date.milliseconds)
        write.bind(2, text: code.description)
        write.bind(3, integer: Int64(bitPattern: device))
        try write.run()
        return changes > 0
    }

    /// Of the pushes that count in the badge. Nobody has more of them than that, but for phones that never read anything;
    /// theirs count no more when they are too old.
    func noteAllRead(by device: UInt64, at date: UnixTime) throws(SQLError) {
        let write = try statement(
            """
            UPDATE push_record SET read = ?1 WHERE id IN (
                SELECT id FROM push_record INDEXED BY push_record_unread
                WHERE read IS NULL AND device = ?2
                ORDER BY requested_at DESC LIMIT 10000)
            """)
        write.bind(1, integer: date.milliseconds)
        write.bind(2, integer: Int64(bitPattern: device))
        try write.run()
    }

    /// Accepted and not read, those of each device in the order in which they were asked for. An index alone is read.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) throws(SQLError) -> [UnreadPush] {
        let rows = try statement(
            """
            SELECT device, requested_at, code, kind, call_ref FROM push_record INDEXED BY push_record_unread
            WHERE read IS NULL AND requested_at >= ?1
            \(push == nil ? "" : "AND (device, requested_at, code) > (?2, ?3, ?4)")
            ORDER BY device, requested_at, code
            """)
        rows.bind(1, integer: date.milliseconds)
        if let push {
            rows.bind(2, integer: push.device.rowNumber)
            rows.bind(3, integer: push.requestedAt.milliseconds)
            rows.bind(4, text: push.code.description)
        }
        return try values(of: rows, limit: limit) { rows -> UnreadPush? in
            guard let code = PushCode(rows.text(2)) else { return nil }
            return UnreadPush(
                code: code, matter: rows.storedMatter(kind: 3, callRef: 4),
                device: DeviceID(rowNumber: rows.integer(0)), requestedAt: UnixTime(milliseconds: rows.integer(1)))
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
