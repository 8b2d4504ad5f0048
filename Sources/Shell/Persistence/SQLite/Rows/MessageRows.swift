import Addressing
import Bytes
import Messaging
import ProxyCore
import Registration
import Storage
import Timekeeping

/// The SQL statements for messages that wait for phones.
extension Connection {
    func write(_ message: StoredMessage) throws(SQLError) {
        try run("INSERT OR REPLACE INTO message VALUES (?,?,?,?,?,?,?,?,?,?,?)") { message.add(to: &$0) }
    }

    func writeDevices(_ devices: [DeviceID], ofMessage id: UInt64) throws(SQLError) {
        try run("UPDATE message SET devices = ? WHERE id = ?", DeviceNumbers(devices: devices), id)
    }

    func removeMessage(_ id: UInt64) throws(SQLError) { try run("DELETE FROM message WHERE id = ?", id) }

    func messages() throws(SQLError) -> [StoredMessage] {
        try values(of: try statement("SELECT * FROM message ORDER BY id")) { $0.storedMessage }
    }
}
