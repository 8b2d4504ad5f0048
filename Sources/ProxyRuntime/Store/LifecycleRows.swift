import PushDelivery
import SIPGrammar
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
}

extension Statement {
    /// `nil` for what is no code of ours.
    func storedCode(_ column: Int) -> PushCode? { PushCode(text(column)) }

    func storedMatter(kind: Int, callRef: Int) -> UnreadPushes.Matter {
        let kind = TimelineRecord.Kind(rawValue: text(kind))
        if kind == .missedCalls { return .list }
        guard kind == .call, let callRef = UInt64(text(callRef), radix: 16) else { return .other }
        return .call(CallRef(rawValue: callRef))
    }
}
