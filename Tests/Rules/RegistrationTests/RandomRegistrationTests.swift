import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Simulates weeks of phones that register, move, change tokens, sign out and sleep. A small model predicts which
/// contacts must exist. After a simulated crash, only the content of the store is left.
@Suite("Random days of a registrar")
struct RandomRegistrationTests {
    @Test(arguments: 1...20)
    func `the table agrees with a simple model`(seed: UInt64) throws {
        var day = RandomDay(seed: seed)
        for _ in 0..<250 { try day.step() }
        #expect(day.passed > 60, "the day must consist of more than refusals")
    }
}

/// One simulated phone, and the values of its next request.
private struct Phone {
    let user: String
    let provider: PushProvider?
    let label: String?
    var token: Int
    var port: Int
    var callID: String
    var cseq = 1

    /// The text of the token, in a form that both providers accept.
    var tokenText: String { String(String(1_000_000 + token).suffix(6)) + String(repeating: "f", count: 58) }

    var contact: String {
        let label = label.map { ";label=\($0)" } ?? ""
        guard let provider else { return "<sip:\(user)@10.0.0.1:\(port)>\(label)" }
        return
            "<sip:\(user)@10.0.0.1:\(port);pn-provider=\(provider.rawValue);pn-prid=\(tokenText);pn-param=T.app>\(label)"
    }
}

/// The model's state of one binding.
private struct Entry {
    let id: DeviceID
    var phone: Phone
    var expires: Instant
    var order: (callID: String, cseq: Int)
    /// The expiry in the store; it may be older than the real expiry, because some refreshes are not written.
    var storedExpires: Instant
    var storedOrder: (callID: String, cseq: Int)
}

private struct RandomDay: ~Copyable {
    private var random: SeededGenerator
    private var registrar = Registrar()
    private var phones: [Phone] = []
    private var entries: [Entry] = []
    private var enabled: Set<PushProvider> = [.apns, .fcm]
    private var store: [DeviceID: StoredBinding] = [:]
    private var usedIDs: Set<DeviceID> = []
    private var counter = 100
    private(set) var passed = 0

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        for number in 0..<8 {
            phones.append(
                Phone(
                    user: number % 2 == 0 ? "ann" : "bob", provider: [.apns, .fcm, nil][number % 3],
                    label: number % 4 < 2 ? "L\(number)" : nil, token: number, port: 100 + number, callID: "c\(number)")
            )
        }
        counter = 1000
    }

    mutating func step() throws {
        let index = Int.random(in: phones.indices, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30:
            phones[index].cseq += 1
            try register(phones[index], on: .phone(UInt32(index)))
        case 30..<50:
            moved(index)
            try register(phones[index], on: .phone(UInt32(index), port: UInt16(phones[index].port)))
        case 50..<58:
            moved(index)
            phones[index].token = next()
            try register(phones[index], on: .phone(UInt32(index)))
        case 58..<68:
            if random.chance(0.5) { moved(index) } else { phones[index].cseq += 1 }
            try signOut(phones[index])
        case 68..<72:
            var stranger = phones[index]
            stranger.token = next()
            stranger.port = next()
            stranger.callID = "stranger\(stranger.port)"
            guard stranger.label == nil else { break }
            try signOut(stranger)
        case 72..<76: try repeatOlder(phones[index])
        case 76..<77: try star(phones[index].user)
        case 77..<92:
            registrar.advance(random.milliseconds(1000...1_500_000))
            if random.chance(0.7) { sweep() }
        case 92..<96: switchProvider(random.chance(0.5) ? .apns : .fcm)
        default: crash()
        }
        try compare()
    }

    // MARK: Events

    private mutating func next() -> Int {
        counter += 1
        return counter
    }

    /// Registers with a new port, a new Call-ID and the first CSeq, as a woken app does.
    private mutating func moved(_ index: Int) {
        phones[index].port = next()
        phones[index].callID = "c\(phones[index].port)"
        phones[index].cseq = 20
    }

    private mutating func register(_ phone: Phone, on flow: Flow) throws {
        dropEnded()
        let reply = try registrar.register(
            phone.contact, user: phone.user, callID: phone.callID, cseq: phone.cseq, on: flow)
        if let provider = phone.provider, !enabled.contains(provider) {
            #expect(reply.status == 555)
            return
        }
        let own = entries.filter { $0.phone.user == phone.user }
        let match = own.first { isSame($0, phone) } ?? own.first { $0.phone.label == phone.label && phone.label != nil }
        let replaced = own.filter { entry in
            entry.id != match?.id && (isSame(entry, phone) || (phone.label != nil && entry.phone.label == phone.label))
        }
        guard match != nil || own.count - replaced.count < 12 else {
            #expect(reply.status == 403)
            return
        }
        #expect(reply.status == 200)
        #expect(Set(reply.removed) == Set(replaced.map(\.id)))
        let id = try #require(reply.refreshed.first)
        #expect(reply.refreshed.count == 1)
        if let match {
            #expect(id == match.id)
        } else {
            #expect(usedIDs.insert(id).inserted, "an id must not come again")
        }
        remember(reply)
        let isStored = store[id]?.callID.string == phone.callID && store[id]?.cseq == UInt32(phone.cseq)
        #expect(isStored || phone.provider != nil, "an ordinary contact's expiry is always written")
        let expires = registrar.now.instant + .seconds(600)
        let order = (phone.callID, phone.cseq)
        let entry = Entry(
            id: id, phone: phone, expires: expires, order: order,
            storedExpires: isStored ? expires : match?.storedExpires ?? expires,
            storedOrder: isStored ? order : match?.storedOrder ?? order)
        entries.removeAll { gone in gone.id == id || replaced.contains { $0.id == gone.id } }
        entries.append(entry)
        passed += 1
    }

    private mutating func signOut(_ phone: Phone) throws {
        dropEnded()
        let reply = try registrar.register(
            phone.contact, user: phone.user, expires: 0, callID: phone.callID, cseq: phone.cseq)
        let own = entries.filter { $0.phone.user == phone.user }
        let same = own.filter { isSame($0, phone) }
        let named = same.isEmpty ? own.filter { $0.phone.label == phone.label && phone.label != nil } : same
        #expect(reply.status == 200)
        #expect(Set(reply.removed) == Set(named.map(\.id)))
        remember(reply)
        entries.removeAll { gone in named.contains { $0.id == gone.id } }
        passed += 1
    }

    /// Sends a REGISTER that was overtaken or is replayed. An old REGISTER that is repeated must never change anything.
    private mutating func repeatOlder(_ phone: Phone) throws {
        dropEnded()
        guard
            let entry = entries.first(where: {
                $0.phone.user == phone.user && $0.order.callID == phone.callID && $0.expires > registrar.now.instant
            }), entry.order.cseq > 1
        else { return }
        let isEqual = random.chance(0.5)
        let reply = try registrar.register(
            "<sip:evil@10.6.6.6>", user: phone.user, callID: phone.callID, cseq: entry.order.cseq - (isEqual ? 0 : 1))
        #expect(reply.status == (isEqual ? 200 : 500))
        #expect(!reply.isPersisted && reply.refreshed.isEmpty)
    }

    private mutating func star(_ user: String) throws {
        dropEnded()
        let own = entries.filter { $0.phone.user == user }
        let reply = try registrar.register("*", user: user, expires: 0, callID: "star\(next())")
        #expect(Set(reply.removed) == Set(own.map(\.id)))
        remember(reply)
        entries.removeAll { $0.phone.user == user }
    }

    private mutating func sweep() {
        for ended in registrar.sweep(limit: 1000) { store[ended.id] = nil }
    }

    private mutating func switchProvider(_ provider: PushProvider) {
        dropEnded()
        if enabled.remove(provider) != nil {
            for ended in registrar.table.providerDisabled(provider, now: registrar.now.instant) {
                store[ended.id] = nil
            }
        } else {
            // A contact that expired while its provider was disabled does not return.
            sweep()
            enabled.insert(provider)
            registrar.table.providerEnabled(provider)
        }
        dropEnded()
    }

    /// Simulates a crash: only the content of the store is left. The store may have older values of a push contact than
    /// the engine.
    private mutating func crash() {
        dropEnded()
        registrar.advance(.milliseconds(50))
        dropEnded()
        var fresh = Registrar(enabled: enabled, now: registrar.now)
        let rows = store.values.sorted { $0.id < $1.id }
        for (row, isTaken) in zip(rows, fresh.restore(rows)) where !isTaken { store[row.id] = nil }
        registrar = fresh
        for index in entries.indices {
            entries[index].expires = entries[index].storedExpires
            entries[index].order = entries[index].storedOrder
        }
        dropEnded()
    }

    // MARK: Model

    private func isSame(_ entry: Entry, _ phone: Phone) -> Bool {
        guard entry.phone.provider == phone.provider else { return false }
        return phone.provider == nil ? entry.phone.port == phone.port : entry.phone.token == phone.token
    }

    private mutating func dropEnded() {
        let now = registrar.now.instant
        entries.removeAll { entry in
            let isPush = entry.phone.provider.map { enabled.contains($0) } ?? false
            return !isPush && entry.expires <= now
        }
    }

    private mutating func remember(_ reply: Reply) {
        for change in reply.plan?.persist ?? [] {
            switch change {
            case .upsert(let row), .refresh(let row): store[row.id] = row
            case .delete(let id), .deleteContact(let id, _), .expire(let id, _): store[id] = nil
            }
        }
    }

    private mutating func compare() throws {
        dropEnded()
        for user in ["ann", "bob"] {
            let own = entries.filter { $0.phone.user == user }
            var expected: [DeviceID: String] = [:]
            for entry in own { expected[entry.id] = entry.phone.contact }
            var found: [DeviceID: String] = [:]
            for binding in registrar.bindings(of: user) { found[binding.id] = binding.contact.string }
            try #require(found == expected)
            let sleeping = own.filter { entry in entry.phone.provider.map { enabled.contains($0) } ?? false }
            let targets = registrar.targets(of: user)
            #expect(targets.count == own.count)
            #expect(Set(targets.filter { $0.kind != .ordinary }.map(\.id)) == Set(sleeping.map(\.id)))
            for target in targets { #expect(!target.requestURI.string.contains("pn-")) }
        }
    }
}
