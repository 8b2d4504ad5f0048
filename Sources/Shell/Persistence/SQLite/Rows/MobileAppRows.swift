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
        try values(of: try statement("SELECT * FROM mobile_app")) { rows in
            StoredMobileApp(
                name: rows.text(0), id: rows.text(1), organisation: rows.text(2),
                tokenHash: Hex.decode(rows.bytes(3)) ?? [], user: rows.text(4), appleProvider: rows.text(5),
                appleParam: rows.optionalText(6), googleParam: rows.optionalText(7),
                createdAt: UnixTime(milliseconds: rows.integer(8)))
        }
    }
}
