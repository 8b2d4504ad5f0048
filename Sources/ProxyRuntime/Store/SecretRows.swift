import Bytes
import SIPGrammar
import Storage
import Timekeeping

/// Secrets and dialogs' lives as SQL.
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
    func write(_ renewal: StoredDialogRenewal) throws(SQLError) {
        let write = try statement(
            """
            INSERT INTO dialog_renewal VALUES (?,?)
            ON CONFLICT (digest) DO UPDATE SET until = max(until, excluded.until)
            """)
        renewal.digest.withSpan { write.bind(1, blob: $0) }
        write.bind(2, integer: renewal.until.milliseconds)
        try write.run()
    }

    func pruneDialogRenewals(before date: UnixTime) throws(SQLError) {
        let delete = try statement("DELETE FROM dialog_renewal WHERE until < ?")
        delete.bind(1, integer: date.milliseconds)
        try delete.run()
    }
}
