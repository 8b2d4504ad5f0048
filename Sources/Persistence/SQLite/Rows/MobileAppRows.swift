import Bytes
import Storage
import Timekeeping

/// Mobile apps as SQL.
extension Connection {
    func write(_ app: StoredMobileApp) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO mobile_app VALUES (?,?,?,?,?,?,?,?,?)")
        write.bind(1, text: app.name)
        write.bind(2, text: app.id)
        write.bind(3, text: app.organisation)
        write.bind(4, text: Hex.encode(app.tokenHash).span)
        write.bind(5, text: app.user)
        write.bind(6, text: app.appleProvider)
        write.bind(7, optional: app.appleParam)
        write.bind(8, optional: app.googleParam)
        write.bind(9, integer: app.createdAt.milliseconds)
        try write.run()
    }

    func removeApp(_ name: String) throws(SQLError) {
        let delete = try statement("DELETE FROM mobile_app WHERE name = ?")
        delete.bind(1, text: name)
        try delete.run()
    }

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
