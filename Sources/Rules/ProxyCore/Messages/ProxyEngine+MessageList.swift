package import Collections
package import Registration

/// Lists of waiting messages, for operators.
extension ProxyEngine {
    /// The waiting messages of one user, oldest first.
    package func waitingMessages(of aor: AddressOfRecord) -> [StoredMessage] { messages.queue(of: aor).map(\.row) }

    /// One page of the waiting messages of all users, oldest first.
    package func waitingMessages(after cursor: PageCursor, limit: Int) -> Page<StoredMessage> {
        let page = messages.page(after: cursor.number, limit: limit).map(\.row)
        return Page(page, next: page.count == limit ? page.last.map { PageCursor($0.id) } : nil)
    }

    package func waitingMessage(_ id: UInt64) -> StoredMessage? { messages[id]?.row }
}
