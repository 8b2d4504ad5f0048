import PostgreSQLClient

/// What `sippushd doctor` finds out about the database of the store.
package enum PostgreSQLExamination: Hashable, Sendable {
    /// The database cannot be used, for the given reason.
    case away(String)
    /// The database answers, but can lose changes that it has confirmed.
    case unsafe(reason: String, cure: String)
    case fine

    /// Connects to the database, and changes nothing.
    package init(of address: PostgreSQLPlace) {
        do {
            let tables = try address.open()
            let durability = try PostgreSQLDurability(of: tables, servers: address.servers.count)
            self = durability.shortcoming.map { .unsafe(reason: $0.reason, cure: $0.cure) } ?? .fine
        } catch {
            self = .away("\(error)")
        }
    }
}
