import Bytes
import Storage
import Timekeeping

/// The SQL statements for secrets, notes and dialog renewals.
extension Connection {
    func write(_ secret: StoredSecret) throws(SQLError) {
        try run("INSERT OR REPLACE INTO secret VALUES (?,?,?)", secret.name, secret.createdAt, secret.value)
    }

    func removeSecret(_ name: String, createdAt date: UnixTime) throws(SQLError) {
        try run("DELETE FROM secret WHERE name = ? AND created_at = ?", name, date)
    }

    /// Writes the end of a dialog's lifetime, unless the row already has a later end.
    func write(_ renewal: DialogRenewal) throws(SQLError) {
        try run(
            """
            INSERT INTO dialog_renewal VALUES (?,?)
            ON CONFLICT (digest) DO UPDATE SET until = max(until, excluded.until)
            """, renewal.digestBytes, renewal.until)
    }

    func pruneDialogRenewals(before date: UnixTime) throws(SQLError) {
        try run("DELETE FROM dialog_renewal WHERE until < ?", date)
    }

    /// Returns the renewals of dialogs whose lifetime has not ended at the given time.
    func dialogRenewals(after date: UnixTime) throws(SQLError) -> [DialogRenewal] {
        let rows = try statement("SELECT digest, until FROM dialog_renewal WHERE until >= ?", with: date)
        return try values(of: rows) { $0.storedDialogRenewal }
    }

    /// Returns the secrets with the given name, newest first.
    func secrets(named name: String) throws(SQLError) -> [StoredSecret] {
        let rows = try statement(
            "SELECT created_at, value FROM secret WHERE name = ? ORDER BY created_at DESC", with: name)
        return try values(of: rows) { $0.storedSecret(named: name) }
    }

    func writeNote(_ key: String, _ value: String) throws(SQLError) {
        try run("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)
    }

    func note(_ key: String) throws(SQLError) -> String? {
        try values(of: try statement("SELECT value FROM meta WHERE key = ?", with: key)) { $0.text(0) }.first
    }
}
