import Addressing
import Bytes
import Registration
import Timekeeping

extension StoredBinding {
    /// Binds all values of the row, in the order of the table's columns.
    func add(to values: inout ParameterList<some SQLParameters>) {
        values.add(id)
        values.add(aor.user)
        values.add(aor.host)
        values.add(contact)
        values.add(callID)
        values.add(cseq)
        values.add(path.joinedLines)
        values.add(flow.transport.parameterName)
        values.add(flow.listener)
        values.add(flow.remote)
        values.add(granted)
        values.add(freshUntil)
        values.add(registeredAt)
        values.add(isPush)
        values.add(orNull: userAgent)
        values.add(Int64(bitPattern: nonce.name))
        values.add(nonce.stored)
    }

    /// Binds the values that a refresh changes, and then the binding's number.
    func addRefreshed(to values: inout ParameterList<some SQLParameters>) {
        values.add(callID)
        values.add(cseq)
        values.add(granted)
        values.add(freshUntil)
        values.add(registeredAt)
        values.add(orNull: userAgent)
        values.add(id)
    }
}

extension StoredRow {
    /// The binding in the current row; `nil` if the row is malformed.
    func storedBinding(_ texts: inout ByteStringWriter) -> StoredBinding? {
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
    var joinedLines: ByteString {
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
    var lines: [ByteString] { isEmpty ? [] : parts(separatedBy: UInt8(ascii: "\n")) }
}
