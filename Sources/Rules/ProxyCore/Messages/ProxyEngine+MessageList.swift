package import Registration
package import Timekeeping

/// What operators see of messages that wait, and take away.
extension ProxyEngine {
    /// Those of one user, or of all users after a number, oldest first.
    package func waitingMessages(of aor: AddressOfRecord?, after id: UInt64 = 0, limit: Int = .max) -> [StoredMessage] {
        if let aor { return messages.queue(of: aor).map(\.row) }
        return messages.page(after: id, limit: limit).map(\.row)
    }

    package func waitingMessage(_ id: UInt64) -> StoredMessage? { messages[id]?.row }

    /// Operators had messages forgotten; their rows are deleted already. A sender who still waits gets 480.
    package func messagesForgotten(_ ids: [UInt64], now: Moment) {
        for id in ids { messages[id].map { dismiss($0, now: now) } }
        settle(now: now)
    }
}
