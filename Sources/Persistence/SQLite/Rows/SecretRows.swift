import Bytes
import Storage
import Timekeeping

/// Secrets, notes and dialogs' lives as SQL.
extension Connection {
    func write(_ secret: StoredSecret) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO secret VALUES (?,?,?)")
        write.bind(1, text: secret.name)
        write.bind(2, integer: secret.createdAt.milliseconds)
        write.bind(3, blob: secret.value.span)
        try write.run()
    }

    func removeSecret(_ name: String, createdAt date: UnixTime) throws(SQLError) {
        let delete = try statement("DELETE FROM secret WHERE name = ? AND created_at = ?")
        delete.bind(1, text: name)
        delete.bind(2, integer: date.milliseconds)
        try delete.run()
    }

    /// The later end counts, whatever comes first.
    func write(_ renewal: DialogRenewal) throws(SQLError) {
        let write = try statement(
            """
            INSERT INTO dialog_renewal VALUES (?,?)
            ON CONFLICT (digest) DO UPDATE SET until = max(until, excluded.until)
            """)
        let digest = (0..<8).map { UInt8(truncatingIfNeeded: renewal.digest >> UInt64(56 - 8 * $0)) }
        write.bind(1, blob: digest.span)
        write.bind(2, integer: renewal.until.milliseconds)
        try write.run()
    }

    func pruneDialogRenewals(before date: UnixTime) throws(SQLError) {
        let delete = try statement("DELETE FROM dialog_renewal WHERE until < ?")
        delete.bind(1, integer: date.milliseconds)
        try delete.run()
    }

    /// Those that have not ended by then.
    func dialogRenewals(after date: UnixTime) throws(SQLError) -> [DialogRenewal] {
        let rows = try statement("SELECT digest, until FROM dialog_renewal WHERE until >= ?")
        rows.bind(1, integer: date.milliseconds)
        return try values(of: rows) { rows in
            let digest = rows.bytes(0)
            guard digest.count == 8 else { return nil }
            return DialogRenewal(
                digest: digest.reduce(0) { $0 << 8 | UInt64($1) }, until: UnixTime(milliseconds: rows.integer(1)))
        }
    }

    /// The newest first.
    func secrets(named name: String) throws(SQLError) -> [StoredSecret] {
        let rows = try statement("SELECT created_at, value FROM secret WHERE name = ? ORDER BY created_at DESC")
        rows.bind(1, text: name)
        return try values(of: rows) { rows in
            StoredSecret(name: name, createdAt: UnixTime(milliseconds: rows.integer(0)), value: rows.bytes(1))
        }
    }

    func writeNote(_ key: String, _ value: String) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO meta VALUES (?, ?)")
        write.bind(1, text: key)
        write.bind(2, text: value)
        try write.run()
    }

    func note(_ key: String) throws(SQLError) -> String? {
        let rows = try statement("SELECT value FROM meta WHERE key = ?")
        rows.bind(1, text: key)
        return try values(of: rows) { $0.text(0) }.first
    }
}
