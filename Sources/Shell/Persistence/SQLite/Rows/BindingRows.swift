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
        ) { values in
            values.add(row.id)
            values.add(row.aor.user)
            values.add(row.aor.host)
            values.add(row.contact)
            values.add(row.callID)
            values.add(row.cseq)
            values.add(row.path.joinedLines)
            values.add(row.flow.transport.parameterName)
            values.add(row.flow.listener)
            values.add(row.flow.remote)
            values.add(row.granted)
            values.add(row.freshUntil)
            values.add(row.registeredAt)
            values.add(row.isPush)
            values.add(orNull: row.userAgent)
            values.add(Int64(bitPattern: row.nonce.name))
            values.add(row.nonce.stored)
        }
    }

    /// Writes the values that a refresh changes, if the binding's row still exists.
    func refresh(_ row: StoredBinding) throws(SQLError) {
        try run(
            """
            UPDATE binding SET call_id = ?, cseq = ?, granted = ?, fresh_until = ?, registered_at = ?,
                user_agent = coalesce(?, user_agent) WHERE id = ?
            """
        ) { values in
            values.add(row.callID)
            values.add(row.cseq)
            values.add(row.granted)
            values.add(row.freshUntil)
            values.add(row.registeredAt)
            values.add(orNull: row.userAgent)
            values.add(row.id)
        }
    }

    func removeBinding(_ id: DeviceID) throws(SQLError) { try run("DELETE FROM binding WHERE id = ?", id) }

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

extension Statement {
    /// The binding in the current row; `nil` if the row is malformed.
    fileprivate func storedBinding(_ texts: inout ByteStringWriter) -> StoredBinding? {
        guard let transport = withBytes(7, { Transport(ascii: $0) }), let listener = UInt16(exactly: integer(8)),
            let remote = withBytes(9, { Endpoint(ascii: $0) }), let cseq = UInt32(exactly: integer(5)),
            let granted = UInt32(exactly: integer(10)), integer(0) != 0
        else { return nil }
        return StoredBinding(
            id: deviceID(0), aor: AddressOfRecord(user: text(1, &texts), host: text(2, &texts)),
            contact: text(3, &texts), callID: text(4, &texts), cseq: cseq, path: text(6, &texts).lines,
            // The flow gets connection number 0, which no new connection has, because its connection ended with the
            // earlier process.
            flow: Flow(transport: transport, listener: listener, connection: 0, remote: remote), granted: granted,
            freshUntil: UnixTime(milliseconds: integer(11)), registeredAt: UnixTime(milliseconds: integer(12)),
            isPush: integer(13) != 0,
            nonce: KeptNonce(
                name: UInt64(bitPattern: integer(15)), count: UInt32(clamping: integer(16)),
                stored: UInt32(clamping: integer(16))))
    }

    private func text(_ column: Int, _ texts: inout ByteStringWriter) -> ByteString {
        withBytes(column) { texts.string($0) }
    }
}

extension Transport {
    /// Reads the name of a transport, as ``parameterName`` writes it.
    init?(ascii: Span<UInt8>) {
        for transport in [Transport.udp, .tcp, .tls, .ws, .wss]
        where transport.parameterName.utf8.span.hasSameBytes(as: ascii) {
            self = transport
            return
        }
        return nil
    }
}

extension [ByteString] {
    /// The values joined to one text, one value on each line. The registrar has already replaced line ends inside the
    /// Path values.
    fileprivate var joinedLines: ByteString {
        guard count > 1 else { return first ?? .empty }
        var out: [UInt8] = []
        for value in self {
            if !out.isEmpty { out.append(UInt8(ascii: "\n")) }
            out.append(value)
        }
        return ByteString(out)
    }
}

extension ByteString {
    fileprivate var lines: [ByteString] { isEmpty ? [] : parts(separatedBy: UInt8(ascii: "\n")) }
}
