import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// A registrar with a clock that the test moves. Tests pass SIP messages to this registrar, and get response statuses
/// and header fields.
struct Registrar: ~Copyable {
    var settings = RegistrarSettings() { didSet { processor = RegisterProcessor(settings: settings) } }
    var table: BindingTable
    var now: Moment
    private(set) var processor = RegisterProcessor(settings: RegistrarSettings())

    static let start = Moment(instant: Instant(nanoseconds: 1_000_000_000_000), date: UnixTime(seconds: 1_800_000_000))

    init(enabled: Set<PushProvider> = [.apns, .fcm], now: Moment = start) {
        table = BindingTable(enabled: ProviderSet(enabled), startedAt: now.date)
        self.now = now
    }

    mutating func advance(_ duration: Duration) {
        now = Moment(instant: now.instant + duration, date: now.date + duration)
    }

    /// Checks a REGISTER and applies its changes, as if the store had written them.
    @discardableResult
    mutating func receive(_ request: SIPRequest, on flow: Flow = .phone()) throws -> Reply {
        let aor = try #require(AddressOfRecord(request.to.uri))
        switch processor.plan(request, for: aor, on: flow, in: table, now: now) {
        case .rejected(let status, let fields, _):
            return Reply(status: status, rows: fields.map { "\($0.name): \($0.value.string)" })
        case .challenged: return Reply(status: 401, rows: [])
        case .refreshed(let refresh):
            table.apply(refresh)
            let rows = rows(for: aor, processor.announcement(of: refresh), after: refresh)
            return Reply(status: 200, rows: rows, refresh: refresh)
        case .accepted(let plan):
            if !plan.persist.isEmpty { table.begin(plan) }
            table.apply(plan)
            return Reply(status: 200, rows: rows(for: aor, plan.announcement), plan: plan)
        }
    }

    private func rows(
        for aor: AddressOfRecord, _ announcement: RegisterAnnouncement, after refresh: ContactRefresh? = nil
    ) -> [String] {
        let date = AddedField("Date", ByteString("now"))
        let rows = [UInt8](capacity: 512) { rows in
            table.appendOKFields(for: aor, announcement, after: refresh, date: date, number: 7, now: now, to: &rows) {
                switch $0 {
                case .temporaryGRUU(let device, let callID, let answer):
                    $1.append(text: "\(device.rawValue).\(callID).\(answer)")
                case .purr(let device, let answer): $1.append(text: "\(device.rawValue).\(answer)")
                }
            }
        }
        return String(decoding: rows, as: UTF8.self).split(separator: "\r\n").map(String.init)
    }

    /// Computes the changes (the plan) of a REGISTER without applying them.
    func plan(_ request: SIPRequest, user: String = "bob", on flow: Flow = .phone()) throws -> RegisterPlan {
        guard case .accepted(let plan) = processor.plan(request, for: .user(user), on: flow, in: table, now: now) else {
            throw Refused()
        }
        return plan
    }

    @discardableResult
    mutating func register(
        _ contacts: String..., user: String = "bob", expires: Int? = 600, callID: String = "call-1", cseq: Int = 1,
        headers: [String] = [], on flow: Flow = .phone()
    ) throws -> Reply {
        try receive(
            registerRequest(
                contacts: contacts, user: user, expires: expires, callID: callID, cseq: cseq, headers: headers),
            on: flow)
    }

    /// Restores bindings from rows of the store.
    ///
    /// - Returns: whether each row was accepted. The caller must delete the rejected rows.
    mutating func restore(_ rows: [StoredBinding]) -> [Bool] {
        var taken: [Bool] = []
        for row in rows { taken.append(restored(row) != .dropped) }
        return taken
    }

    mutating func restored(_ row: StoredBinding) -> BindingTable.Restored {
        table.restore(row, settings: settings, now: now)
    }

    mutating func remove(_ id: DeviceID) -> BindingChange? { table.remove(id) }

    mutating func sweep(limit: Int = 100) -> [BindingTable.Ended] {
        table.removeExpired(limit: limit, now: now.instant)
    }

    func isKnown(_ user: String) -> Bool { table.isKnown(.user(user)) }

    func wasKnown(_ user: String) -> Bool { table.wasKnown(.user(user)) }

    func aor(of id: DeviceID) -> AddressOfRecord? { table.binding(id)?.aor }

    func rows(of users: String...) -> [StoredBinding] {
        var rows: [StoredBinding] = []
        for user in users {
            for binding in bindings(of: user) {
                if let row = table.stored(binding.id, now: now) { rows.append(row) }
            }
        }
        return rows
    }

    func bindings(of user: String = "bob") -> [Binding] { table.bindings(for: .user(user), now: now.instant) }

    func contacts(of user: String = "bob") -> [String] { bindings(of: user).map(\.contact.string) }

    func targets(of user: String = "bob") -> [ForkTarget] { table.forkTargets(for: .user(user), now: now.instant) }
}

struct Refused: Error {}

struct Reply {
    let status: Status
    /// The header fields that the registrar adds to the response, without their line ends.
    let rows: [String]
    var plan: RegisterPlan?
    var refresh: ContactRefresh?

    func values(_ name: String) -> [String] {
        rows.filter { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    var contacts: [String] { values("Contact") }
    var featureCaps: [String] { values("Feature-Caps") }
    var refreshed: [DeviceID] { plan.map { Array($0.refreshed) } ?? refresh.map { [$0.id] } ?? [] }
    var bookkeeping: [DeviceID]? { plan.map { Array($0.bookkeeping) } ?? refresh.map { [$0.id] } }
    var removed: [DeviceID] { plan?.removed ?? [] }
    var facts: [RegistrationFact] { plan?.facts ?? [] }

    var isPersisted: Bool { plan?.persist.isEmpty == false }
}

extension AddressOfRecord {
    static func user(_ name: String) -> AddressOfRecord {
        AddressOfRecord(user: ByteString(name), host: ByteString("pn.test"))
    }
}

extension Flow {
    /// Makes the flow of a phone that uses UDP from the address `198.51.100.<host>`.
    static func phone(_ host: UInt32 = 1, port: UInt16 = 5060) -> Flow {
        Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0xc633_6400 | host), port))
    }
}

/// Reads a message that must be a valid request.
func readRequest(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> SIPRequest {
    try #require(SIPText.readRequest(Array(text.utf8)), "not a request:\n\(text)", sourceLocation: sourceLocation)
}

func registerRequest(
    contacts: [String], user: String = "bob", expires: Int? = 600, callID: String = "call-1", cseq: Int = 1,
    headers: [String] = [], via: String = "192.0.2.9:5060"
) throws -> SIPRequest {
    var lines = [
        "REGISTER sip:pn.test SIP/2.0", "Via: SIP/2.0/UDP \(via);branch=z9hG4bK\(callID)\(cseq);rport",
        "From: <sip:\(user)@pn.test>;tag=a", "To: <sip:\(user)@pn.test>", "Call-ID: \(callID)",
        "CSeq: \(cseq) REGISTER", "Max-Forwards: 70",
    ]
    if let expires { lines.append("Expires: \(expires)") }
    lines += contacts.map { "Contact: \($0)" } + headers + ["Content-Length: 0", "", ""]
    return try readRequest(lines.joined(separator: "\r\n"))
}

/// Makes Contact values as phones send them.
enum PhoneContact {
    static func fcm(_ token: String = "tok-1", port: Int = 5060, user: String = "bob", after: String = "") -> String {
        "<sip:\(user)@10.0.0.5:\(port);pn-provider=fcm;pn-prid=\(token);pn-param=proj>\(after)"
    }

    /// Makes a contact with an Apple token, extended by zeros to the length of Apple's tokens.
    static func apple(_ token: String = "AA11", port: Int = 5060, after: String = "") -> String {
        "<sip:bob@10.0.0.5:\(port);pn-provider=apns;pn-prid=\(long(token));pn-param=TEAM.com.ex.app.voip>\(after)"
    }

    static func long(_ token: String) -> String {
        token + String(repeating: "0", count: max(0, 64 - token.count))
    }

    static func ordinary(port: Int = 5060, after: String = "") -> String { "<sip:bob@10.0.0.5:\(port)>\(after)" }

    static func instance(_ digit: Int) -> String {
        ";+sip.instance=\"<urn:uuid:\(digit)0000000-1111-2222-3333-444444444444>\""
    }
}
