package import Collections
package import Registration

/// What operators see of messages that wait, and take away.
extension ProxyEngine {
    /// Those of one user, oldest first.
    package func waitingMessages(of aor: AddressOfRecord) -> [StoredMessage] { messages.queue(of: aor).map(\.row) }

    /// Some of all, oldest first.
    package func waitingMessages(after cursor: PageCursor, limit: Int) -> Page<StoredMessage> {
        let page = messages.page(after: cursor.number, limit: limit).map(\.row)
        return Page(page, next: page.count == limit ? page.last.map { PageCursor($0.id) } : nil)
    }

    package func waitingMessage(_ id: UInt64) -> StoredMessage? { messages[id]?.row }
}
