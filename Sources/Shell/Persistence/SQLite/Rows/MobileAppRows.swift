import Bytes
import Storage
import Timekeeping

/// The SQL statements for mobile apps.
extension Connection {
    func write(_ app: StoredMobileApp) throws(SQLError) {
        try run(
            "INSERT OR REPLACE INTO mobile_app VALUES (?,?,?,?,?,?,?,?,?)", app.name, app.id, app.organisation,
            ByteString(Hex.encode(app.tokenHash)), app.user, app.appleProvider, app.appleParam, app.googleParam,
            app.createdAt)
    }

    func removeApp(_ name: String) throws(SQLError) { try run("DELETE FROM mobile_app WHERE name = ?", name) }

    func mobileApps() throws(SQLError) -> [StoredMobileApp] {
        try values(of: try statement("SELECT * FROM mobile_app")) { $0.storedMobileApp }
    }
}
