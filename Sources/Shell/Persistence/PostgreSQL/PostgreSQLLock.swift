import Glibc
import PostgreSQLClient

/// The advisory locks of a store. Without a cluster, one daemon or command at a time writes the store. In a cluster,
/// only nodes write the store, and one daemon at a time has the name of a node.
///
/// A writer that lost its connection takes the lock again, before it writes. So the server has ended the old
/// connection, and no late commit of the old connection can overwrite a newer row.
struct PostgreSQLLock {
    /// The process of the server that holds the lock, and the start of this process.
    private var holder: (process: Int64, start: String)?
    /// The name of this daemon in a cluster; `nil` if no other daemon may use the store.
    let node: String?

    init(of node: String?) { self.node = node }

    /// The SQL expression for the number of a lock. The schemas of a database can have one store each.
    static func key(_ purpose: String) -> String {
        "hashtextextended('sippushd \(purpose) ' || coalesce(current_schema(), ''), 0)"
    }

    /// Takes the lock on a new connection, and ends this process's own earlier connection.
    ///
    /// - Parameters:
    ///   - tables: the new connection.
    ///   - patience: how long to wait for the end of another connection.
    /// - Throws: an error if another daemon keeps the lock.
    mutating func take(on tables: PostgreSQLTables, patience: Duration) throws(PostgreSQLFailure) {
        if let holder {
            _ = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.rows(
                    """
                    SELECT pg_terminate_backend(pid)::int::bigint FROM pg_stat_activity
                    WHERE pid = $1::bigint AND backend_start::text = $2
                    """, holder.process, holder.start)
            }
        }
        let end = ContinuousClock.now + patience
        let locks =
            if let node {
                [
                    "pg_try_advisory_lock_shared(\(Self.key("store")))",
                    "pg_try_advisory_lock(\(Self.key("node \(node)")))",
                ]
            } else {
                ["pg_try_advisory_lock(\(Self.key("store")))"]
            }
        for lock in locks {
            while try PostgreSQLFailure.wrapping({ () throws(PostgreSQLError) in
                try tables.rows("SELECT \(lock)::int::bigint").number
            }) == 0 {
                guard ContinuousClock.now < end else {
                    throw lock == locks[0] ? PostgreSQLFailure.inUse : PostgreSQLFailure.nodeInUse(node ?? "")
                }
                usleep(Self.pause)
            }
        }
        let rows = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows(
                "SELECT pid::bigint, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        }
        holder = rows.count > 0 ? (rows[0].integer(0), rows[0].text(1)) : nil
    }

    /// The pause between two tries to take the lock, in microseconds.
    private static let pause: UInt32 = 50_000
}
