import Bytes
import Storage
import Timekeeping

/// Keys of the HTTP API as SQL.
extension Connection {
    func write(_ key: StoredKey) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO api_key VALUES (?,?,?,?)")
        write.bind(1, text: key.name)
        write.bind(2, text: Hex.encode(key.hash).span)
        write.bind(3, text: key.scopes)
        write.bind(4, integer: key.createdAt.milliseconds)
        try write.run()
    }

    func removeKey(_ name: String) throws(SQLError) {
        let delete = try statement("DELETE FROM api_key WHERE name = ?")
        delete.bind(1, text: name)
        try delete.run()
    }

    func keys() throws(SQLError) -> [StoredKey] {
        try values(of: try statement("SELECT * FROM api_key")) { rows in
            StoredKey(
                name: rows.text(0), hash: Hex.decode(rows.bytes(1)) ?? [], scopes: rows.text(2),
                createdAt: UnixTime(milliseconds: rows.integer(3)))
        }
    }
}
