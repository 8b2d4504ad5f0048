import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Storage
import Timekeeping

/// Changes as SQL.
extension Connection {
    /// - Returns: false for a change of a row that is not there.
    func apply(_ change: StoreChange) throws(SQLError) -> Bool {
        if case .pushMark(let code, let device, let mark, let date) = change {
            return try note(mark, of: code, device: device, at: date)
        }
        try write(change)
        return true
    }

    private func write(_ change: StoreChange) throws(SQLError) {
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
        case .addKey(let key): try write(key)
        case .removeKey(let name):
            let delete = try statement("DELETE FROM api_key WHERE name = ?")
            delete.bind(1, text: name)
            try delete.run()
        case .addApp(let app): try write(app)
        case .removeApp(let name):
            let delete = try statement("DELETE FROM mobile_app WHERE name = ?")
            delete.bind(1, text: name)
            try delete.run()
        case .deadToken(let dead): try write(dead)
        case .pruneDeadTokens(let date, let count):
            let delete = try statement(
                """
                DELETE FROM dead_token WHERE recorded_at < ?
                OR id <= (SELECT id FROM dead_token ORDER BY id DESC LIMIT 1 OFFSET ?)
                """)
            delete.bind(1, integer: date.milliseconds)
            delete.bind(2, integer: Int64(count))
            try delete.run()
        case .timeline(let record):
            try write(record)
            if record.hasOpening { try removeOpenCall(record.id) }
        case .callOpened(let record): try writeOpenCall(record)
        case .callsClosed(let ids): for id in ids { try removeOpenCall(id) }
        case .pruneTimeline(let date, let count, let limit):
            try pruneTimeline(before: date, keeping: count, limit: limit)
        case .pushMark(let code, let device, let mark, let date): _ = try note(mark, of: code, device: device, at: date)
        case .pushesRead(let codes, let device, let date):
            for code in codes { _ = try note(.read, of: code, device: device, at: date) }
        case .allPushesRead(let device, let date): try noteAllRead(by: device, at: date)
        case .deviceRequest(let request): try write(request)
        case .deviceRequestFinished(let request, let outcome, let date): try finish(request, outcome, at: date)
        case .pruneDeviceRequests(let date, let count): try pruneDeviceRequests(before: date, keeping: count)
        case .mobileDevice(let request): try writeMobileDevice(request)
        case .forgetMobileDevices(let request): try forgetMobileDevices(request)
        case .note(let key, let value):
            let write = try statement("INSERT OR REPLACE INTO meta VALUES (?, ?)")
            write.bind(1, text: key)
            write.bind(2, text: value)
            try write.run()
        case .addSecret(let secret): try write(secret)
        case .removeSecret(let name, let date): try removeSecret(name, createdAt: date)
        case .dialogRenewal(let renewal): try write(renewal)
        case .pruneDialogRenewals(let date): try pruneDialogRenewals(before: date)
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

    /// `name@realm` of those that follow, by realm and name.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) throws(SQLError) -> [String] {
        let rows = try statement(
            "SELECT name, realm FROM user WHERE (realm, name) > (?, ?) ORDER BY realm, name LIMIT ?")
        rows.bind(1, text: realm)
        rows.bind(2, text: name)
        rows.bind(3, integer: Int64(limit))
        var names: [String] = []
        while try rows.step() { names.append("\(rows.text(0))@\(rows.text(1))") }
        return names
    }

    private func write(_ dead: DeadToken) throws(SQLError) {
        let write = try statement(
            "INSERT INTO dead_token (recorded_at, since, provider, param, token, source) VALUES (?,?,?,?,?,?)")
        write.bind(1, integer: dead.recordedAt.milliseconds)
        write.bind(2, integer: dead.since.milliseconds)
        write.bind(3, text: dead.token.provider.rawValue)
        write.bind(4, text: dead.token.param)
        write.bind(5, text: dead.token.prid)
        write.bind(6, text: dead.source.rawValue)
        try write.run()
    }

    /// The rows of a page in the order in which they were written, and one more if there is a next page.
    func deadTokens(_ page: DeadTokenPage) throws(SQLError) -> [DeadTokenPage.Row] {
        let rows = try statement("SELECT * FROM dead_token WHERE id > ? AND recorded_at >= ? ORDER BY id LIMIT ?")
        rows.bind(1, integer: page.after)
        rows.bind(2, integer: UnixTime(seconds: page.since).milliseconds)
        rows.bind(3, integer: Int64(page.limit) + 1)
        var found: [DeadTokenPage.Row] = []
        while try rows.step() {
            if let dead = rows.storedDeadToken { found.append(DeadTokenPage.Row(id: rows.integer(0), dead: dead)) }
        }
        return found
    }

    private func write(_ key: APIKey) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO api_key VALUES (?,?,?,?)")
        write.bind(1, text: key.name)
        write.bind(2, text: Hex.encode(key.hash).span)
        write.bind(3, text: key.scopes.names)
        write.bind(4, integer: key.createdAt.milliseconds)
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
            id: DeviceID(rawValue: UInt64(bitPattern: integer(0))),
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

    var storedDeadToken: DeadToken? {
        guard let provider = PushProvider(rawValue: text(3)), let source = DeadToken.Source(rawValue: text(6)) else {
            return nil
        }
        return DeadToken(
            token: PushToken(provider: provider, param: byteString(4), prid: byteString(5)),
            since: UnixTime(milliseconds: integer(2)), recordedAt: UnixTime(milliseconds: integer(1)), source: source)
    }

    var storedKey: APIKey? {
        guard let hash = Hex.decode(bytes(1)), let scopes = APIScope.set(text(2)) else { return nil }
        return APIKey(name: text(0), hash: hash, scopes: scopes, createdAt: UnixTime(milliseconds: integer(3)))
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
