import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Storage
import Timekeeping

/// Calls that wait or ring as SQL, so that the next run of the program goes on with them.
extension Connection {
    func write(_ change: CallChange) throws(SQLError) {
        switch change {
        case .begun(let call):
            try write(call)
            for (number, branch) in call.branches.enumerated() {
                try write(branch, number, of: call.id)
            }
        case .branch(let call, let number, let branch): try write(branch, number, of: call)
        case .final(let call, let bytes): try run("UPDATE call SET final = ? WHERE id = ?", bytes, call)
        case .over(let call): try removeCall(call)
        }
    }

    private func write(_ call: StoredCall) throws(SQLError) {
        try run("INSERT OR REPLACE INTO call VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)") { values in
            values.add(call.id)
            values.add(call.callRef.rawValue)
            values.add(call.aor.user)
            values.add(call.aor.host)
            values.add(call.receivedAt)
            values.add(call.holdUntil)
            values.add(call.mayPush)
            values.add(call.source.transport.parameterName)
            values.add(call.source.listener)
            values.add(call.source.remote)
            values.add(call.isTrusted)
            values.add(orNull: call.sender.map { ByteString("\($0)") })
            values.add(Blob(call.request))
            values.add(orNull: call.final.isEmpty ? nil : Blob(call.final))
        }
    }

    private func write(_ branch: StoredCall.Branch, _ number: Int, of call: UInt64) throws(SQLError) {
        guard let sent = branch.sent else {
            return try run(
                """
                INSERT INTO call_branch (call, number, stage, device, contact, was_pushed, was_woken, device_knows, has_moved,
                    code, ending, ending_status) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
                ON CONFLICT DO UPDATE SET stage = excluded.stage, contact = excluded.contact,
                    was_pushed = excluded.was_pushed, was_woken = excluded.was_woken,
                    device_knows = excluded.device_knows, has_moved = excluded.has_moved,
                    code = ifnull(excluded.code, code), ending = excluded.ending, ending_status = excluded.ending_status
                """
            ) { values in branch.add(number, of: call, to: &values) }
        }
        try run(
            """
            INSERT INTO call_branch VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL)
            ON CONFLICT DO UPDATE SET stage = excluded.stage, contact = excluded.contact,
                was_pushed = excluded.was_pushed, was_woken = excluded.was_woken, device_knows = excluded.device_knows,
                has_moved = excluded.has_moved, code = ifnull(excluded.code, code), ending = excluded.ending,
                ending_status = excluded.ending_status,
                former = CASE WHEN via IS NULL THEN former ELSE via || ifnull(char(10) || former, '') END,
                transport = excluded.transport, listener = excluded.listener, remote = excluded.remote,
                is_theirs = excluded.is_theirs, via = excluded.via, uri = excluded.uri, routes = excluded.routes
            """
        ) { values in
            branch.add(number, of: call, to: &values)
            values.add(sent.flow.transport.parameterName)
            values.add(sent.flow.listener)
            values.add(sent.flow.remote)
            values.add(sent.flow.isConnection)
            values.add(sent.via)
            values.add(sent.requestURI)
            values.add(sent.routes.joinedLines)
        }
    }

    private func removeCall(_ id: UInt64) throws(SQLError) {
        try run("DELETE FROM call WHERE id = ?", id)
        try run("DELETE FROM call_branch WHERE call = ?", id)
    }

    /// Branches whose call could not be written.
    func removeStrayBranches() throws(SQLError) {
        try execute("DELETE FROM call_branch WHERE call NOT IN (SELECT id FROM call)")
    }

    /// A page of the calls, in the order of their numbers.
    func calls(after id: UInt64, limit: Int) throws(SQLError) -> [StoredCall] {
        let rows = try statement("SELECT * FROM call WHERE id > ? ORDER BY id", with: id)
        var calls = try values(of: rows, limit: limit) { $0.storedCall }
        guard let last = calls.last?.id else { return [] }
        let branches = try statement(
            "SELECT * FROM call_branch WHERE call > ? AND call <= ? ORDER BY call, number", with: id, last)
        defer { branches.reset() }
        var place = 0
        while try branches.step() {
            let call = UInt64(bitPattern: branches.integer(0))
            while place < calls.count, calls[place].id < call { place += 1 }
            guard place < calls.count, calls[place].id == call, let branch = branches.storedBranch else { continue }
            // Branches are told apart by their place.
            if Int(branches.integer(1)) == calls[place].branches.count { calls[place].branches.append(branch) }
        }
        return calls
    }
}

extension StoredCall.Branch {
    /// All but what it has sent.
    fileprivate func add(_ number: Int, of call: UInt64, to values: inout ParameterList) {
        values.add(call)
        values.add(number)
        values.add(word: stage)
        values.add(orNull: device)
        values.add(orNull: contact)
        values.add(wasPushed)
        values.add(wasWoken)
        values.add(deviceKnows)
        values.add(hasMoved)
        values.add(orNull: code)
        values.add(orNull: end?.word)
        values.add(orNull: end?.status?.code)
    }
}

/// Bytes that are no text.
private struct Blob: SQLParameter {
    let bytes: ByteString

    init(_ bytes: ByteString) { self.bytes = bytes }

    func bind(to statement: Statement, at index: Int) { bytes.withSpan { statement.bind(index, blob: $0) } }
}

extension Statement {
    /// The row as a value without branches; `nil` for one that this program cannot have written.
    fileprivate var storedCall: StoredCall? {
        guard let source = flow(7) else { return nil }
        let sender = isNull(11) ? nil : AddressOfRecord(stored: byteString(11))
        return StoredCall(
            id: UInt64(bitPattern: integer(0)), aor: AddressOfRecord(user: byteString(2), host: byteString(3)),
            callRef: CallRef(rawValue: UInt64(bitPattern: integer(1))), callID: .empty, fromTag: .empty,
            receivedAt: UnixTime(milliseconds: integer(4)), holdUntil: UnixTime(milliseconds: integer(5)),
            mayPush: integer(6) != 0, source: source, isTrusted: integer(10) != 0, sender: sender,
            request: byteString(12), final: byteString(13))
    }

    fileprivate var storedBranch: StoredCall.Branch? {
        guard let stage = StoredCall.Branch.Stage(rawValue: text(2)) else { return nil }
        let status = UInt16(exactly: integer(11)).map { Status(code: $0) }
        return StoredCall.Branch(
            stage: stage, device: isNull(3) ? nil : deviceID(3), contact: isNull(4) ? nil : deviceID(4),
            wasPushed: integer(5) != 0, wasWoken: integer(6) != 0, deviceKnows: integer(7) != 0,
            hasMoved: integer(8) != 0, record: nil, code: optionalText(9).flatMap { PushCode($0) },
            end: optionalText(10).flatMap { ForkBranch.End(word: $0, status) }, sent: storedINVITE,
            former: isNull(19) ? [] : Array(byteString(19).storedLines.prefix(Self.longestPast)))
    }

    /// How many INVITEs before the last one a phone may answer.
    private static let longestPast = 8

    private var storedINVITE: StoredCall.SentINVITE? {
        guard !isNull(16), let flow = flow(12) else { return nil }
        return StoredCall.SentINVITE(
            via: byteString(16), requestURI: byteString(17), routes: byteString(18).storedLines,
            flow: integer(15) == 0 ? flow : flow.closed)
    }

    /// Its connection ended with the process that had it; no new one has the number 0.
    private func flow(_ column: Int) -> Flow? {
        guard let transport = withBytes(column, { Transport(ascii: $0) }),
            let listener = UInt16(exactly: integer(column + 1)),
            let remote = withBytes(column + 2, { Endpoint(ascii: $0) })
        else { return nil }
        return Flow(transport: transport, listener: listener, connection: 0, remote: remote)
    }
}

extension AddressOfRecord {
    /// Reads what its description wrote.
    fileprivate init?(stored text: ByteString) {
        var rest = text
        var user = ByteString.empty
        // The host has no `@`, whatever the user has.
        guard let at = text.lastIndex(of: UInt8(ascii: "@")) else { return nil }
        user = text[0..<at]
        rest = text[at + 1..<text.count]
        self.init(user: user, host: rest)
    }
}

/// As words and statuses.
extension ForkBranch.End {
    fileprivate var word: String {
        switch self {
        case .succeeded: "answered"
        case .failed: "refused"
        case .gaveUp: "gave-up"
        case .silent: "silent"
        case .cancelled(.answeredElsewhere): "answered-elsewhere"
        case .cancelled(.declinedElsewhere): "declined-elsewhere"
        case .cancelled(.callerCancelled): "caller-gave-up"
        case .cancelled(.dismissed): "dismissed"
        case .cancelled(.moved): "moved"
        }
    }

    fileprivate var status: Status? {
        switch self {
        case .failed(let status), .gaveUp(let status), .cancelled(.declinedElsewhere(let status)),
            .cancelled(.dismissed(let status)):
            status
        case .succeeded, .silent, .cancelled: nil
        }
    }

    fileprivate init?(word: String, _ status: Status?) {
        switch (word, status) {
        case ("answered", _): self = .succeeded
        case ("refused", let status?): self = .failed(status)
        case ("gave-up", let status?): self = .gaveUp(status)
        case ("silent", _): self = .silent
        case ("answered-elsewhere", _): self = .cancelled(.answeredElsewhere)
        case ("declined-elsewhere", let status?): self = .cancelled(.declinedElsewhere(status))
        case ("caller-gave-up", _): self = .cancelled(.callerCancelled)
        case ("dismissed", let status?): self = .cancelled(.dismissed(status))
        case ("moved", _): self = .cancelled(.moved)
        default: return nil
        }
    }
}
