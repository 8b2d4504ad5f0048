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
        try run("INSERT OR REPLACE INTO message VALUES (?,?,?,?,?,?,?,?,?,?,?)") { values in
            values.add(message.id)
            values.add(message.aor.user)
            values.add(message.aor.host)
            values.add(message.sender)
            values.add(message.source.transport.parameterName)
            values.add(message.source.listener)
            values.add(message.source.remote)
            values.add(message.receivedAt)
            values.add(message.expiresAt)
            values.add(DeviceNumbers(devices: message.devices))
            values.add(message.request.array)
        }
    }

    func writeDevices(_ devices: [DeviceID], ofMessage id: UInt64) throws(SQLError) {
        try run("UPDATE message SET devices = ? WHERE id = ?", DeviceNumbers(devices: devices), id)
    }

    func removeMessage(_ id: UInt64) throws(SQLError) { try run("DELETE FROM message WHERE id = ?", id) }

    func messages() throws(SQLError) -> [StoredMessage] {
        try values(of: try statement("SELECT * FROM message ORDER BY id")) { $0.storedMessage }
    }
}

extension Statement {
    /// The waiting message in the current row; `nil` if the row is malformed.
    fileprivate var storedMessage: StoredMessage? {
        guard let transport = withBytes(4, { Transport(ascii: $0) }), let listener = UInt16(exactly: integer(5)),
            let remote = withBytes(6, { Endpoint(ascii: $0) })
        else { return nil }
        return StoredMessage(
            id: UInt64(bitPattern: integer(0)), aor: AddressOfRecord(user: byteString(1), host: byteString(2)),
            sender: byteString(3),
            // The flow gets connection number 0, which no new connection has, because its connection ended with the
            // earlier process.
            source: Flow(transport: transport, listener: listener, connection: 0, remote: remote),
            receivedAt: UnixTime(milliseconds: integer(7)), expiresAt: UnixTime(milliseconds: integer(8)),
            devices: text(9).split(separator: ",").compactMap { UInt64($0).map(DeviceID.init(rawValue:)) },
            request: byteString(10))
    }
}
