import Addressing
import Bytes
import Registration
import Storage
import Timekeeping

/// The SQL statements for bindings.
extension Connection {
    func write(_ row: StoredBinding) throws(SQLError) {
        try run(
            """
            INSERT OR REPLACE INTO binding VALUES (?1,?,?,?,?,?,?,?,?,?,?,?,?,?,
                coalesce(?, (SELECT user_agent FROM binding WHERE id = ?1), ''),
                ?, ?)
            """
        ) { row.add(to: &$0) }
    }

    /// Writes the values that a refresh changes, if the binding's row still exists.
    func refresh(_ row: StoredBinding) throws(SQLError) {
        try run(
            """
            UPDATE binding SET call_id = ?, cseq = ?, granted = ?, fresh_until = ?, registered_at = ?,
                user_agent = coalesce(?, user_agent) WHERE id = ?
            """
        ) { row.addRefreshed(to: &$0) }
    }

    func removeBinding(_ id: DeviceID) throws(SQLError) { try run("DELETE FROM binding WHERE id = ?", id) }

    func removeBinding(_ id: DeviceID, contact: ByteString) throws(SQLError) {
        try run("DELETE FROM binding WHERE id = ? AND contact = ?", id, contact)
    }

    func removeBinding(_ id: DeviceID, registeredAt date: UnixTime) throws(SQLError) {
        try run("DELETE FROM binding WHERE id = ? AND registered_at = ?", id, date)
    }

    /// Returns the User-Agents of the given devices; devices that have none are omitted.
    func userAgents(of devices: [DeviceID]) throws(SQLError) -> [DeviceID: ByteString] {
        var found: [DeviceID: ByteString] = [:]
        for device in devices {
            let rows = try statement("SELECT user_agent FROM binding WHERE id = ? AND user_agent != ''", with: device)
            found[device] = try values(of: rows, limit: 1) { ByteString($0.bytes(0)) }.first
        }
        return found
    }

    /// Returns a page of bindings, sorted by device number.
    func bindings(after device: DeviceID?, limit: Int) throws(SQLError) -> [StoredBinding] {
        let rows =
            if let device {
                try statement("SELECT * FROM binding WHERE id > ? ORDER BY id", with: device)
            } else {
                try statement("SELECT * FROM binding ORDER BY id")
            }
        // The bindings of a page share one block of memory; the block is freed together with the page's last binding.
        var texts = ByteStringWriter(capacity: 1 << 16)
        return try values(of: rows, limit: limit) { $0.storedBinding(&texts) }
    }
}
