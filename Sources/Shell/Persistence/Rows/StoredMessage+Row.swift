import Addressing
import Bytes
import Messaging
import ProxyCore
import Registration
import Timekeeping

extension StoredMessage {
    /// Binds all values of the row, in the order of the table's columns.
    func add(to values: inout ParameterList<some SQLParameters>) {
        values.add(id)
        values.add(aor.user)
        values.add(aor.host)
        values.add(sender)
        values.add(source.transport.parameterName)
        values.add(source.listener)
        values.add(source.remote)
        values.add(receivedAt)
        values.add(expiresAt)
        values.add(DeviceNumbers(devices: devices))
        values.add(request.array)
    }
}

extension StoredRow {
    /// The waiting message in the current row; `nil` if the row is malformed.
    var storedMessage: StoredMessage? {
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
