package import Registration

/// What operators see of messages that wait, and take away.
extension ProxyEngine {
    /// Those of one user, or of all users after a number, oldest first.
    package func waitingMessages(of aor: AddressOfRecord?, after id: UInt64 = 0, limit: Int = .max) -> [StoredMessage] {
        if let aor { return messages.queue(of: aor).map(\.row) }
        return messages.page(after: id, limit: limit).map(\.row)
    }

    package func waitingMessage(_ id: UInt64) -> StoredMessage? { messages[id]?.row }
}
