internal import Addressing
internal import PushDelivery
internal import Registration
internal import SIPGrammar
internal import Storage
internal import Timekeeping

/// Changes as SQL.
extension Connection {
    func apply(_ change: StoreChange) throws(SQLError) {
        switch change {
        case .binding(.upsert(let row)): try write(row)
        case .binding(.delete(let id)):
            let delete = try statement("DELETE FROM binding WHERE id = ?")
            delete.bind(1, integer: Int64(bitPattern: id.rawValue))
            try delete.run()
        case .bucket(let aor, .upsert(let entry)): try write(entry, of: aor)
        case .bucket(_, .delete(let callRef)):
            let delete = try statement("DELETE FROM bucket_entry WHERE call_ref = ?")
            delete.bind(1, text: callRef.description)
            try delete.run()
        case .addUser(let user): try write(user)
        case .removeUser(let name, let realm):
            let delete = try statement("DELETE FROM user WHERE realm = ? AND name = ?")
            delete.bind(1, text: realm)
            delete.bind(2, text: name)
            try delete.run()
        case .switchProvider(let provider, let isOn):
            let write = try statement("INSERT OR REPLACE INTO provider_switch VALUES (?, ?)")
            write.bind(1, text: provider.rawValue)
            write.bind(2, integer: isOn ? 1 : 0)
            try write.run()
        case .timeline(let record): try write(record)
        case .pruneTimeline(let date, let count, let limit):
            try pruneTimeline(before: date, keeping: count, limit: limit)
        case .note(let key, let value):
            let write = try statement("INSERT OR REPLACE INTO meta VALUES (?, ?)")
            write.bind(1, text: key)
            write.bind(2, text: value)
            try write.run()
        }
    }

    private func write(_ row: StoredBinding) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO binding VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        write.bind(1, integer: Int64(bitPattern: row.id.rawValue))
        write.bind(2, text: row.aor.user)
        write.bind(3, text: row.aor.host)
        write.bind(4, text: row.contact)
        write.bind(5, text: row.callID)
        write.bind(6, integer: Int64(row.cseq))
        write.bind(7, text: row.path.joinedLines)
        write.bind(8, text: row.flow.transport.parameterName)
        write.bind(9, integer: Int64(row.flow.listener))
        write.bind(10, text: row.flow.remote.description)
        write.bind(11, integer: Int64(row.granted))
        write.bind(12, integer: row.freshUntil.milliseconds)
        write.bind(13, integer: row.registeredAt.milliseconds)
        write.bind(14, integer: row.isPush ? 1 : 0)
        try write.run()
    }

    private func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO bucket_entry VALUES (?,?,?,?,?,?,?,?)")
        write.bind(1, text: entry.callRef.description)
        write.bind(2, text: aor.user)
        write.bind(3, text: aor.host)
        write.bind(4, text: entry.caller)
        write.bind(5, integer: entry.date.milliseconds)
        write.bind(6, text: entry.devices.map { "\($0)" }.joined(separator: ","))
        write.bind(7, integer: entry.isOver ? 1 : 0)
        write.bind(8, text: entry.told.map { "\($0)" }.joined(separator: ","))
        try write.run()
    }

    private func write(_ user: DigestUser) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO user VALUES (?,?,?,?,?)")
        write.bind(1, text: user.name)
        write.bind(2, text: user.realm)
        for (index, algorithm) in DigestAlgorithm.columns.enumerated() {
            if let ha1 = user.ha1[algorithm] { write.bind(3 + index, text: ha1) } else { write.bindNull(3 + index) }
        }
        try write.run()
    }
}

/// Rows as values; `nil` for a row that nobody of ours has written.
extension Statement {
    var storedBinding: StoredBinding? {
        guard let transport = Transport(parameter: text(7)), let listener = UInt16(exactly: integer(8)),
            let remote = Endpoint(text(9)), let cseq = UInt32(exactly: integer(5)),
            let granted = UInt32(exactly: integer(10)), integer(0) != 0
        else { return nil }
        // One block of memory for all text of the row.
        var block: [UInt8] = []
        block.reserveCapacity(1024)
        append(1, to: &block)
        let user = 0..<block.count
        append(2, to: &block)
        let host = user.upperBound..<block.count
        append(3, to: &block)
        let contact = host.upperBound..<block.count
        append(4, to: &block)
        let callID = contact.upperBound..<block.count
        append(6, to: &block)
        let path = callID.upperBound..<block.count
        let all = ByteString(copying: block.span)
        return StoredBinding(
            id: BindingID(rawValue: UInt64(bitPattern: integer(0))),
            aor: AddressOfRecord(user: all[user], host: all[host]), contact: all[contact], callID: all[callID],
            cseq: cseq, path: all[path].lines,
            // The connection ended with the process that had it; no new one has the number 0.
            flow: Flow(transport: transport, listener: listener, connection: 0, remote: remote), granted: granted,
            freshUntil: UnixTime(milliseconds: integer(11)), registeredAt: UnixTime(milliseconds: integer(12)),
            isPush: integer(13) != 0)
    }

    var storedBucketEntry: (aor: AddressOfRecord, entry: BucketEntry)? {
        guard let callRef = UInt64(text(0), radix: 16) else { return nil }
        let devices = text(5).split(separator: ",").compactMap { UInt64($0) }
        guard !devices.isEmpty else { return nil }
        let entry = BucketEntry(
            callRef: CallRef(rawValue: callRef), caller: byteString(3), date: UnixTime(milliseconds: integer(4)),
            devices: devices, told: text(7).split(separator: ",").compactMap { UInt64($0) }, isOver: integer(6) != 0)
        return (AddressOfRecord(user: byteString(1), host: byteString(2)), entry)
    }

    var storedUser: DigestUser {
        var ha1: [DigestAlgorithm: ByteString] = [:]
        for (index, algorithm) in DigestAlgorithm.columns.enumerated() where !isNull(2 + index) {
            ha1[algorithm] = byteString(2 + index)
        }
        return DigestUser(name: byteString(0), realm: byteString(1), ha1: ha1)
    }

    func byteString(_ column: Int) -> ByteString { withBytes(column) { ByteString(copying: $0) } }

    func bind(_ index: Int, text: ByteString) { text.withSpan { bind(index, text: $0) } }
}

extension DigestAlgorithm {
    /// In the order of the table's columns.
    fileprivate static let columns: [DigestAlgorithm] = [.md5, .sha256, .sha512_256]
}

extension [ByteString] {
    /// One value a line; the registrar has replaced line ends inside values.
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
    fileprivate var lines: [ByteString] {
        guard !isEmpty else { return [] }
        var lines: [ByteString] = []
        var start = 0
        for index in 0..<count where self[index] == UInt8(ascii: "\n") {
            lines.append(self[start..<index])
            start = index + 1
        }
        return lines + [self[start..<count]]
    }
}
