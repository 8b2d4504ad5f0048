import Addressing
import Bytes
import Calling
import Registration
import Storage

/// The SQL statements for the rules of users for calls.
extension Connection {
    func write(_ row: StoredUserRules) throws(SQLError) {
        try run("INSERT OR REPLACE INTO user_rules VALUES (?,?,?)", row.aor.user, row.aor.host, row.text)
    }

    func removeRules(of aor: AddressOfRecord) throws(SQLError) {
        try run("DELETE FROM user_rules WHERE domain = ? AND user = ?", aor.host, aor.user)
    }

    /// Returns all rules. A row that a later version of the daemon wrote in another form is left out, and stays in the
    /// store.
    func userRules() throws(SQLError) -> [StoredUserRules] {
        try values(of: try statement("SELECT user, domain, rules FROM user_rules")) { $0.storedUserRules }
    }

    func userRules(of aor: AddressOfRecord) throws(SQLError) -> StoredUserRules? {
        let rows = try statement(
            "SELECT user, domain, rules FROM user_rules WHERE domain = ? AND user = ?", with: aor.host, aor.user)
        return try values(of: rows, limit: 1) { $0.storedUserRules }.first
    }
}
