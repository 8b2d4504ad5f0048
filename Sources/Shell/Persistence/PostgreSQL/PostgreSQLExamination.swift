import PostgreSQLClient

/// What `sippushd doctor` finds out about the database of the store.
package enum PostgreSQLExamination: Hashable, Sendable {
    /// The database cannot be used, for the given reason.
    case away(String)
    /// The database answers, but can lose changes that it has confirmed.
    case unsafe(reason: String, cure: String)
    /// The nodes that live have different versions.
    case mixed(String)
    case fine

    /// Connects to the database, and changes nothing.
    package init(of address: PostgreSQLPlace) {
        do {
            let tables = try address.open()
            let isMigrated = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.rows("SELECT (to_regclass('sippushd_schema') IS NOT NULL)::int::bigint").number == 1
            }
            let state = isMigrated ? try PostgreSQLSchema.state(in: tables) : nil
            try state?.check()
            let durability = try PostgreSQLDurability(of: tables, servers: address.servers.count)
            if let shortcoming = durability.shortcoming {
                self = .unsafe(reason: shortcoming.reason, cure: shortcoming.cure)
            } else if let state, state.number >= 3, let mixed = try Self.mixed(tables) {
                self = .mixed(mixed)
            } else {
                self = .fine
            }
        } catch {
            self = .away("\(error)")
        }
    }

    /// The living nodes with their versions, if these differ; otherwise `nil`.
    static func mixed(_ tables: PostgreSQLTables) throws(PostgreSQLFailure) -> String? {
        let nodes = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows(
                """
                SELECT name, coalesce(CASE WHEN described_run = run THEN version END, 'an unknown version') FROM node
                WHERE seen > clock_timestamp() - interval '10 seconds' ORDER BY name
                """
            ).values { (name: $0.text(0), version: $0.text(1)) }
        }
        guard Set(nodes.map(\.version)).count > 1 else { return nil }
        return nodes.map { "\($0.name) has \($0.version)" }.joined(separator: ", ")
    }
}
