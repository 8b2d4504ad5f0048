import PostgreSQLClient

/// The server's settings that decide whether the server can lose a commit that it has confirmed.
struct PostgreSQLDurability: Equatable {
    var fsync = "on"
    var fullPageWrites = "on"
    var synchronousCommit = "on"
    var synchronousStandbys = ""
    /// The number of standbys that are connected to the server.
    var standbys: Int64 = 0
    /// The number of servers in the setting of the connection.
    var servers = 1

    /// Asks the server for its settings.
    init(of tables: PostgreSQLTables, servers: Int) throws(PostgreSQLError) {
        let rows = try tables.rows(
            """
            SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
            current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)
            """)
        let row = rows[0]
        (fsync, fullPageWrites, synchronousCommit) = (row.text(0), row.text(1), row.text(2))
        (synchronousStandbys, standbys, self.servers) = (row.text(3), row.integer(4), servers)
    }

    init() {}

    private var isCluster: Bool { servers > 1 || standbys > 0 }

    /// Why the database can lose confirmed changes, and the cure; `nil` if it cannot.
    var shortcoming: Shortcoming? {
        if fsync == "off" || fullPageWrites == "off" {
            return Shortcoming(
                "the server has fsync or full_page_writes off, so a power failure can destroy the store",
                cure: "set fsync = on and full_page_writes = on in postgresql.conf")
        }
        if synchronousCommit == "off" {
            return Shortcoming(
                "synchronous_commit is off, so a crash of the server loses confirmed changes",
                cure: "set synchronous_commit = on for the role and the database of the store")
        }
        guard isCluster else { return nil }
        if synchronousStandbys.isEmpty {
            return Shortcoming(
                "synchronous_standby_names is empty, so a failover loses confirmed changes",
                cure: "set synchronous_standby_names = 'ANY 1 (*)' or the names of your standbys")
        }
        if synchronousCommit == "local" {
            return Shortcoming(
                "synchronous_commit is local, so a failover loses confirmed changes",
                cure: "set synchronous_commit = on for the role and the database of the store")
        }
        return nil
    }

    struct Shortcoming: Equatable {
        let reason: String
        let cure: String

        init(_ reason: String, cure: String) { (self.reason, self.cure) = (reason, cure) }
    }
}
