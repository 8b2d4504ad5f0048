import Bytes
import Storage
import Timekeeping

/// The SQL statements for keys of the HTTP API.
extension Connection {
    func write(_ key: StoredKey) throws(SQLError) {
        try run(
            "INSERT OR REPLACE INTO api_key VALUES (?,?,?,?,?)", key.name, ByteString(Hex.encode(key.hash)), key.scopes,
            key.createdAt, key.domains)
    }

    func removeKey(_ name: String) throws(SQLError) { try run("DELETE FROM api_key WHERE name = ?", name) }

    func keys() throws(SQLError) -> [StoredKey] {
        try values(of: try statement("SELECT * FROM api_key")) { $0.storedKey }
    }
}
